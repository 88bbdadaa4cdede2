"""Maps OpenCode's errors to the failure of a turn, by name, status and message."""

from __future__ import annotations

import re

from tillerman.agents.decoding.fields import Table, count, table, text
from tillerman.core.failure import BY_STATUS, Failure, FailureKind

ABORTED = "MessageAbortedError"
OVERFLOW = "ContextOverflowError"

_BY_NAME: dict[str, FailureKind] = {
    "ProviderAuthError": "not_signed_in",
    OVERFLOW: "context_overflow",
    "MessageOutputLengthError": "output_limit",
    "ProviderModelNotFoundError": "model_not_found",
}
# Over ACP the status is not sent, and a model that is not configured has none.
_SAYS: tuple[tuple[re.Pattern[str], FailureKind], ...] = (
    (re.compile(r"insufficient.(quota|credit)|exceeded your.*quota|billing", re.I), "billing"),
    (re.compile(r"\bmodel\b.*(not found|not exist)", re.I), "model_not_found"),
    (re.compile(r"api.?key|unauthori[sz]ed|forbidden|authentication", re.I), "not_signed_in"),
    (re.compile(r"rate.?limit|too many requests", re.I), "rate_limited"),
    (re.compile(r"context (window|length)|prompt is too long", re.I), "context_overflow"),
)
_HINTS: dict[FailureKind, str] = {
    "not_signed_in": "run `opencode auth login`, or set the key of the model's provider",
    "billing": "add credit to the provider's account, or use another provider's model",
    "model_not_found": "`tillerman models -a opencode` lists the models; choose one with -m",
    "rate_limited": "wait, or use another agent or model",
    "context_overflow": "start a new session, or let the agent /compact this one",
    "output_limit": "ask for less in one prompt",
    "api_error": "try again in a moment",
}
_HIDDEN = "Unexpected server error."


def failure(error: Table) -> Failure:
    """Maps `{name, data: {message, statusCode, responseHeaders, responseBody}}`."""
    name, data = text(error, "name"), table(error, "data")
    message = text(data, "message") or text(error, "message") or name or "it gave no reason"
    status = count(data, "statusCode") or None
    kind = kind_of(name, status, f"{message}\n{text(data, 'responseBody')}")
    hint = _HINTS.get(kind, "")
    if message.startswith(_HIDDEN):
        hint = "OpenCode gives no reason; the model is probably unknown: choose one with -m"
    return Failure(
        kind=kind,
        message=message.split("\n    at ")[0],
        status=status,
        retry_after=_wait(table(data, "responseHeaders")) if kind == "rate_limited" else None,
        hint=hint,
    )


def kind_of(name: str, status: int | None, words: str) -> FailureKind:
    if name in _BY_NAME:
        return _BY_NAME[name]
    said = next((kind for pattern, kind in _SAYS if pattern.search(words)), None)
    if status == 429 and said == "billing":
        return said
    if status:
        return BY_STATUS.get(status, "api_error")
    return said or ("api_error" if name == "APIError" else "agent_failed")


def _wait(headers: Table) -> float | None:
    try:
        return min(max(float(text(headers, "retry-after")), 0.0), 1e6)
    except ValueError:
        return None
