"""Maps the CLI's result and an earlier API error to the failure of a turn."""

from __future__ import annotations

from typing import NamedTuple

from tillerman.agents.decoding.fields import Table, number, strings, text
from tillerman.core.failure import BY_STATUS, Failure, FailureKind, history_lost


class ApiError(NamedTuple):
    """An error that the CLI reports as an assistant message: `assistant.error` and its text."""

    word: str
    message: str


_BY_WORD: dict[str, FailureKind] = {
    "authentication_failed": "not_signed_in",
    "oauth_org_not_allowed": "not_signed_in",
    "billing_error": "billing",
    "rate_limit": "rate_limited",
    "model_not_found": "model_not_found",
    "max_output_tokens": "output_limit",
    "server_error": "api_error",
    "overloaded": "api_error",
}
_BY_SUBTYPE: dict[str, FailureKind] = {
    "error_max_turns": "turn_limit",
    "error_max_budget_usd": "cost_limit",
    "error_max_structured_output_retries": "schema_mismatch",
}
_HINTS: dict[FailureKind, str] = {
    "not_signed_in": "run `claude auth login` or set ANTHROPIC_API_KEY",
    "billing": "add credit to the account, or sign in with another",
    "model_not_found": "`tillerman models -a claude` lists the models; choose one with -m",
    "rate_limited": "wait, or use another agent or model",
    "context_overflow": "start a new session, or let the agent /compact this one",
    "output_limit": "ask for less in one prompt, or raise CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "refused": "rephrase the request, or use another model",
    "api_error": "try again in a moment",
    "stream_broken": "try again",
    "turn_limit": "raise --max-turns, or prompt again to continue",
    "cost_limit": "raise --max-cost, or prompt again to continue",
    "schema_mismatch": "prompt again, or relax the output schema",
}
_OVERFLOW = ("prompt is too long", "exceed context limit", "context window", "too many tokens")
_NO_SUCH_SESSION = "No conversation found"


def failed(result: Table, error: ApiError | None) -> bool:
    """Whether the turn failed; `subtype` stays "success" when the API failed."""
    is_error = result.get("is_error")
    if isinstance(is_error, bool):
        return is_error or text(result, "subtype").startswith("error")
    return error is not None or text(result, "subtype") != "success"


def failure(
    result: Table, error: ApiError | None, *, retry_after: float | None = None, cut: bool = False
) -> Failure:
    """Builds the failure of a turn; `cut`: a message had started and was never finished."""
    message = text(result, "result") or "; ".join(strings(result, "errors"))
    message = message or (error.message if error else "") or "the agent gave no reason"
    if message.startswith(_NO_SUCH_SESSION):
        return history_lost(message)
    status = number(result, "api_error_status")
    kind = _kind(result, error, status, message)
    if cut and kind == "api_error" and "connect" in message.lower():
        kind = "stream_broken"
    refused = kind == "api_error" and 400 <= (status or 0) < 500  # a retry would fail too
    hint = "" if refused else _HINTS.get(kind, "")
    return Failure(
        kind=kind,
        message=message,
        status=int(status) if status else None,
        retry_after=retry_after if kind == "rate_limited" else None,
        hint=hint,
    )


def of_retry(word: str, status: int, message: str) -> Failure:
    """The failure of a call that the CLI retries; `word` as in `ApiError`."""
    kind = _BY_WORD.get(word) or (BY_STATUS.get(status, "api_error") if status else "api_error")
    return Failure(kind=kind, message=message, status=status or None, hint=_HINTS.get(kind, ""))


def taken_for_whole(said: str) -> Failure:
    """2.1.197: after a broken stream it retries without streaming, and counts no output tokens."""
    return Failure(
        kind="stream_broken",
        message=f"the answer was cut off after {len(said)} characters, "
        "and the agent reported it as complete",
        hint=_HINTS["stream_broken"],
    )


def _kind(result: Table, error: ApiError | None, status: float | None, message: str) -> FailureKind:
    if kind := _BY_SUBTYPE.get(text(result, "subtype")):
        return kind
    if text(result, "stop_reason") == "refusal":
        return "refused"
    if any(words in message.lower() for words in _OVERFLOW):
        return "context_overflow"
    if error and error.word in _BY_WORD:
        return _BY_WORD[error.word]
    if status:
        return BY_STATUS.get(int(status), "api_error")
    return "api_error" if error else "agent_failed"
