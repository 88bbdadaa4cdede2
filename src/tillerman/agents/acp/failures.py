"""Maps JSON-RPC errors and stop reasons of ACP agents to failures.

Agents wrap the API error in different ways: as the code, as `data.errorKind`, within
`data.details`, or as JSON within the message. Otherwise the message text is matched.
"""

from __future__ import annotations

import re
from typing import get_args

from msgspec.structs import replace

from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.decoding.failure_reader import (
    ANY_STATUS,
    KNOWN_STATUS,
    NO_STATUS,
    OTHER_STATUS,
    FailureRule,
    FailureTable,
    by_name,
    by_text,
)
from tillerman.agents.decoding.fields import Table, at, parse, text
from tillerman.agents.jsonrpc.peer import METHOD_NOT_FOUND, RpcError
from tillerman.core.failure import Failure, FailureKind, history_lost

AUTH_REQUIRED = -32000
NOT_FOUND = -32002

_OVERFLOW = r"context (length|window|limit)|prompt is too long|too many tokens"
_BROKEN = (
    r"stream (ended|closed|disconnected)|connection (reset|closed|error)|premature close"
    r"|^terminated\Z|socket hang up|\b(ECONNRESET|EPIPE)\b|other side closed"  # words of Node
)
_BY_TEXT = tuple(
    by_text(
        (_OVERFLOW, "context_overflow"),
        (r"\bmodels?\b.*(not exist|not found|not supported|no access)", "model_not_found"),
        (r"insufficient.*(credit|balance|quota)|billing|payment", "billing"),
        (r"rate.?limit|too many requests|quota|exhausted", "rate_limited"),
        (r"api.?key|unauthori[sz]ed|authenticat|sign in|log ?in\b", "not_signed_in"),
        (_BROKEN, "stream_broken"),
        (r"overloaded|internal server error|service unavailable|bad gateway", "api_error"),
    )
)
_BY_NAME: dict[str, FailureKind] = {
    **{kind: kind for kind in get_args(FailureKind)},  # tillerman's own, of `tillerman acp`
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
_API_ERROR = "APIError"
_SIGN_IN_FIRST = "auth_required"  # error code AUTH_REQUIRED
_BY_STOP: dict[str, tuple[FailureKind, str]] = {
    "max_tokens": ("output_limit", "the answer exceeds the model's output limit"),
    "max_turn_requests": ("turn_limit", "the agent reached its limit of model calls in one turn"),
    "refusal": ("refused", "the model refused to continue"),
}
TABLE = FailureTable(
    rules=(
        FailureRule("not_signed_in", name=_SIGN_IN_FIRST),
        *by_name(_BY_NAME),
        *KNOWN_STATUS,
        FailureRule("context_overflow", status=ANY_STATUS, text=_OVERFLOW),
        OTHER_STATUS,
        *_BY_TEXT,
        FailureRule("api_error", name=_API_ERROR),
    ),
    hints={
        "context_overflow": "start a new session",
        "turn_limit": "prompt again to continue",
    },
    status_in_text=r"(?:^|\bstatus(?: code)?:? |\bHTTP )([45]\d\d)\b",
    retry_after_in_text=r"retry (?:after|in) (\d+(?:\.\d+)?) ?s",
)
_TEXTS = FailureTable(rules=_BY_TEXT)
_NO_SESSION = re.compile(r"session.*(not found|invalid|unknown)|invalid session", re.IGNORECASE)


def failure(error: RpcError, row: AcpAgentRow) -> Failure:
    message = _message(error)
    found = TABLE.read(message, name=_name(error), status=_status(error, message))
    if hint := text(error.data, "hint") if isinstance(error.data, dict) else "":
        return replace(found, hint=hint)
    if found.kind != "not_signed_in":
        return found
    sign_in = f"sign in with `{row.command[0]}` itself, or pass its key with --env NAME"
    return replace(found, hint=row.login or sign_in)


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
    return Failure(kind=kind, message=message, hint=TABLE.hint(FailureRule(kind)))


def _message(error: RpcError) -> str:
    """The most specific error text in the response."""
    message = error.message.removeprefix("Internal error: ")
    data = error.data
    more = ""
    match data:
        case str():
            more = data
        case dict():
            more = text(data, "message") or text(data, "details")
    if message.startswith("{") and isinstance(inner := parse(message.encode()), dict):
        message = at(inner, "error", "message") or message
    if more and message.lower() in ("internal error", "invalid params", "authentication required"):
        return more
    return (
        f"{message}: {more}" if more and more not in message and error.code != -32601 else message
    )


def _status(error: RpcError, message: str) -> int | None:
    """The status of the API's response; None if only the error text may contain it."""
    if 400 <= error.code < 600:
        hides = error.code == 500 and _TEXTS.match(message)  # the text says more
        return NO_STATUS if hides else error.code
    info = at(error.data, "codex_error_info")
    for inner in info.values() if isinstance(info, dict) else ():
        if isinstance(status := at(inner, "http_status_code"), int):
            return status
    return None


def _name(error: RpcError) -> str:
    if error.code == AUTH_REQUIRED:
        return _SIGN_IN_FIRST
    data: Table = error.data if isinstance(error.data, dict) else {}
    for key in ("errorKind", "codex_error_info"):
        if (name := text(data, key)) in _BY_NAME:
            return name
    return _API_ERROR if text(data, "errorName") == _API_ERROR else ""
