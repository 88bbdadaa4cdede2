"""Maps JSON-RPC errors and stop reasons of ACP agents to failures.

Agents wrap the API error in different ways: as the code, as `data.errorKind`, within
`data.details`, or as JSON within the message. Otherwise the message text is matched.
"""

from __future__ import annotations

import re

from tillerman.agents.acp.agent_row import AcpAgentRow
from tillerman.agents.decoding.fields import Table, at, parse, text
from tillerman.agents.jsonrpc.peer import METHOD_NOT_FOUND, RpcError
from tillerman.core.failure import BY_STATUS, Failure, FailureKind, history_lost

AUTH_REQUIRED = -32000
NOT_FOUND = -32002

_BY_WORD: dict[str, FailureKind] = {
    "authentication_failed": "not_signed_in",
    "oauth_org_not_allowed": "not_signed_in",
    "billing_error": "billing",
    "rate_limit": "rate_limited",
    "usage_limit_exceeded": "rate_limited",
    "model_not_found": "model_not_found",
    "max_output_tokens": "output_limit",
    "context_window_exceeded": "context_overflow",
    "server_overloaded": "api_error",
    "server_error": "api_error",
    "overloaded": "api_error",
}
_BY_STOP: dict[str, tuple[FailureKind, str]] = {
    "max_tokens": ("output_limit", "the answer exceeds the model's output limit"),
    "max_turn_requests": ("turn_limit", "the agent reached its limit of model calls in one turn"),
    "refusal": ("refused", "the model refused to continue"),
}
_PATTERNS: tuple[tuple[str, FailureKind], ...] = (
    (r"context (length|window|limit)|prompt is too long|too many tokens", "context_overflow"),
    (r"\bmodels?\b.*(not exist|not found|not supported|no access)", "model_not_found"),
    (r"insufficient.*(credit|balance|quota)|billing|payment", "billing"),
    (r"rate.?limit|too many requests|quota|exhausted", "rate_limited"),
    (r"api.?key|unauthori[sz]ed|authenticat|sign in|log ?in\b", "not_signed_in"),
    (r"stream (ended|closed|disconnected)|connection (reset|closed|error)", "stream_broken"),
    (r"overloaded|internal server error|service unavailable|bad gateway", "api_error"),
)
_SAYS = [(re.compile(pattern, re.IGNORECASE), kind) for pattern, kind in _PATTERNS]
_HINTS: dict[FailureKind, str] = {
    "billing": "add credit to the account, or sign in with another",
    "model_not_found": "choose another model with -m",
    "rate_limited": "wait, or use another agent or model",
    "context_overflow": "start a new session",
    "output_limit": "ask for less in one prompt",
    "turn_limit": "prompt again to continue",
    "refused": "rephrase the request, or use another model",
    "api_error": "try again in a moment",
    "stream_broken": "try again",
}
_STATUS = re.compile(r"(?:^|\bstatus(?: code)?:? |\bHTTP )([45]\d\d)\b")
_RETRY = re.compile(r"retry (?:after|in) (\d+(?:\.\d+)?) ?s", re.IGNORECASE)
_NO_SESSION = re.compile(r"session.*(not found|invalid|unknown)|invalid session", re.IGNORECASE)


def failure(error: RpcError, row: AcpAgentRow) -> Failure:
    message = _message(error)
    status = _status(error, message)
    kind = _kind(error, status, message)
    retry = _RETRY.search(message) if kind == "rate_limited" else None
    return Failure(
        kind=kind,
        message=message,
        status=status,
        retry_after=float(retry[1]) if retry else None,
        hint="" if kind == "api_error" and 400 <= (status or 0) < 500 else _hint(kind, row),
    )


def not_opened(error: RpcError, row: AcpAgentRow, *, resuming: bool) -> Failure:
    """Maps an error of session/new, load, resume or fork, including an unknown session."""
    why = failure(error, row)
    lost = error.code in (NOT_FOUND, METHOD_NOT_FOUND) or why.kind == "agent_failed"
    if resuming and (lost or _NO_SESSION.search(why.message)):
        return history_lost(why.message)
    return why


def lacking(what: str, row: AcpAgentRow) -> Failure:
    """The failure for a feature that the agent does not declare in its capabilities."""
    return Failure(
        kind="agent_failed",
        message=f"{row.title or row.name} does not support {what}",
        hint="start a session without it, or use another agent",
    )


def stopped(reason: str) -> Failure | None:
    """Maps a stop reason; None if it is not a failure or is unknown."""
    if reason not in _BY_STOP:
        return None
    kind, message = _BY_STOP[reason]
    return Failure(kind=kind, message=message, hint=_HINTS[kind])


def _hint(kind: FailureKind, row: AcpAgentRow) -> str:
    if kind != "not_signed_in":
        return _HINTS.get(kind, "")
    return row.login or f"sign in with `{row.command[0]}` itself, or pass its key with --env NAME"


def _message(error: RpcError) -> str:
    """The most specific error text in the response."""
    said = error.message.removeprefix("Internal error: ")
    data = error.data
    more = ""
    match data:
        case str():
            more = data
        case dict():
            more = text(data, "message") or text(data, "details")
    if said.startswith("{") and isinstance(inner := parse(said.encode()), dict):
        said = at(inner, "error", "message") or said
    if more and said.lower() in ("internal error", "invalid params", "authentication required"):
        return more
    return f"{said}: {more}" if more and more not in said and error.code != -32601 else said


def _status(error: RpcError, message: str) -> int | None:
    if 400 <= error.code < 600:
        return error.code if error.code != 500 or not _said(message) else None
    info = at(error.data, "codex_error_info")
    for inner in info.values() if isinstance(info, dict) else ():
        if isinstance(status := at(inner, "http_status_code"), int):
            return status
    found = _STATUS.search(message)
    return int(found[1]) if found else None


def _kind(error: RpcError, status: int | None, message: str) -> FailureKind:
    if error.code == AUTH_REQUIRED:
        return "not_signed_in"
    data: Table = error.data if isinstance(error.data, dict) else {}
    for key in ("errorKind", "codex_error_info"):
        if kind := _BY_WORD.get(text(data, key)):
            return kind
    said = _said(message)
    if status:
        known = BY_STATUS.get(status)
        return known or (said if said == "context_overflow" else "api_error")
    return said or ("api_error" if text(data, "errorName") == "APIError" else "agent_failed")


def _said(message: str) -> FailureKind | None:
    return next((kind for pattern, kind in _SAYS if pattern.search(message)), None)
