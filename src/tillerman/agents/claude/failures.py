"""Maps the CLI's result and an earlier API error to the failure of a turn."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from tillerman.agents.decoding.failure_reader import (
    COMMON_HINTS,
    KNOWN_STATUS,
    NO_REASON,
    OTHER_STATUS,
    FailureRule,
    FailureTable,
    by_name,
)
from tillerman.agents.decoding.fields import Table, number, strings, text
from tillerman.core.failure import Failure, FailureKind


class ApiError(NamedTuple):
    """An error that the CLI reports as an assistant message: `assistant.error` and its text."""

    word: str
    message: str


_BY_SUBTYPE: dict[str, FailureKind] = {
    "error_max_turns": "turn_limit",
    "error_max_budget_usd": "cost_limit",
    "error_max_structured_output_retries": "schema_mismatch",
}
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
_REFUSAL = "refusal"
_OTHER = "other"  # an `ApiError` whose word is not known
_OVERFLOW = "prompt is too long|exceed context limit|context window|too many tokens"
_HINTS: dict[FailureKind, str] = {
    "not_signed_in": "run `claude auth login` or set ANTHROPIC_API_KEY",
    "model_not_found": "`tillerman models -a claude` lists the models; choose one with -m",
    "output_limit": "ask for less in one prompt, or raise CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "turn_limit": "raise --max-turns, or prompt again to continue",
    "cost_limit": "raise --max-cost, or prompt again to continue",
    "schema_mismatch": "prompt again, or relax the output schema",
}
_API_ERRORS = (
    *by_name(_BY_WORD),
    *KNOWN_STATUS,
    OTHER_STATUS,
    FailureRule("api_error", name=_OTHER),
)
_RESULTS = FailureTable(
    rules=(
        FailureRule("history_lost", text="^No conversation found"),
        *by_name(_BY_SUBTYPE),
        FailureRule("refused", name=_REFUSAL),
        FailureRule("context_overflow", text=_OVERFLOW),
        *_API_ERRORS,
    ),
    hints=_HINTS,
)
_RETRIES = FailureTable(rules=_API_ERRORS, hints=_HINTS, retry_client_errors=True)


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
    message = message or (error.message if error else "") or NO_REASON
    status = int(number(result, "api_error_status") or 0)
    name = _name(result, error)
    found = _RESULTS.read(message, name=name, status=status, retry_after=retry_after)
    if cut and found.kind == "api_error" and "connect" in message.lower():
        return replace(found, kind="stream_broken", hint=COMMON_HINTS["stream_broken"])
    return found


def of_retry(word: str, status: int, message: str) -> Failure:
    """The failure of a call that the CLI retries; `word` as in `ApiError`."""
    return _RETRIES.read(message, name=word if word in _BY_WORD else _OTHER, status=status)


def taken_for_whole(message: str) -> Failure:
    """2.1.197: after a broken stream it retries without streaming, and counts no output tokens."""
    return Failure(
        kind="stream_broken",
        message=f"the answer was cut off after {len(message)} characters, "
        "and the agent reported it as complete",
        hint=COMMON_HINTS["stream_broken"],
    )


def _name(result: Table, error: ApiError | None) -> str:
    if (subtype := text(result, "subtype")) in _BY_SUBTYPE:
        return subtype
    if text(result, "stop_reason") == "refusal":
        return _REFUSAL
    if error is None:
        return ""
    return error.word if error.word in _BY_WORD else _OTHER
