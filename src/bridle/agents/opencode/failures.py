"""Why a turn failed, read from OpenCode's errors: their name, status and words."""

from __future__ import annotations

from bridle.agents.fields import Table, count, table, text
from bridle.core.failure import Failure, FailureKind

ABORTED = "MessageAbortedError"
OVERFLOW = "ContextOverflowError"

_BY_NAME: dict[str, FailureKind] = {
    "ProviderAuthError": "not_signed_in",
    OVERFLOW: "context_overflow",
    "MessageOutputLengthError": "output_limit",
    "ProviderModelNotFoundError": "model_not_found",
}
_BY_STATUS: dict[int, FailureKind] = {
    401: "not_signed_in",
    402: "billing",
    403: "not_signed_in",
    404: "model_not_found",
    413: "context_overflow",
    429: "rate_limited",
}
# Over ACP the status is not told, and a model that is not configured never had one.
_BY_WORDS: tuple[tuple[str, FailureKind], ...] = (
    ("insufficient_quota", "billing"),
    ("exceeded your current quota", "billing"),
    ("model not found", "model_not_found"),
    ("does not exist or you do not have access", "model_not_found"),
    ("api key", "not_signed_in"),
    ("api_key", "not_signed_in"),
    ("unauthorized", "not_signed_in"),
    ("authentication", "not_signed_in"),
    ("rate limit", "rate_limited"),
    ("too many requests", "rate_limited"),
    ("context window", "context_overflow"),
    ("prompt is too long", "context_overflow"),
)
_HINTS: dict[FailureKind, str] = {
    "not_signed_in": "run `opencode auth login`, or set the key of the model's provider",
    "billing": "add credit to the provider's account, or use a model of another",
    "model_not_found": "`bridle models -a opencode` lists the models; name one with -m",
    "rate_limited": "wait, or use another agent or model",
    "context_overflow": "start a new session, or let the agent /compact this one",
    "output_limit": "ask for less at once",
    "api_error": "try again in a moment",
}
_HIDDEN = "Unexpected server error."


def failure(error: Table) -> Failure:
    """`{name, data: {message, statusCode, responseHeaders, responseBody}}`."""
    name, data = text(error, "name"), table(error, "data")
    message = text(data, "message") or text(error, "message") or name or "it gave no reason"
    status = count(data, "statusCode") or None
    kind = kind_of(name, status, f"{message}\n{text(data, 'responseBody')}")
    hint = _HINTS.get(kind, "")
    if message.startswith(_HIDDEN):
        hint = "OpenCode hides the reason here; most often the model is unknown: name one with -m"
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
    said = words.lower()
    if status == 429 and any(w in said for w, kind in _BY_WORDS if kind == "billing"):
        return "billing"
    if status:
        return _BY_STATUS.get(status, "api_error")
    for phrase, kind in _BY_WORDS:
        if phrase in said:
            return kind
    return "api_error" if name == "APIError" else "agent_failed"


def hint_of(kind: FailureKind) -> str:
    return _HINTS.get(kind, "")


def _wait(headers: Table) -> float | None:
    try:
        return min(max(float(text(headers, "retry-after")), 0.0), 1e6)
    except ValueError:
        return None
