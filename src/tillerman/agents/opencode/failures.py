"""Maps OpenCode's errors to the failure of a turn, by name, status and message."""

from __future__ import annotations

from msgspec.structs import replace

from tillerman.agents.decoding.failure_reader import (
    KNOWN_STATUS,
    OTHER_STATUS,
    FailureRule,
    FailureTable,
    by_name,
    by_text,
)
from tillerman.agents.decoding.fields import Table, count, table, text
from tillerman.core.failure import Failure

ABORTED = "MessageAbortedError"
OVERFLOW = "ContextOverflowError"
_TOO_LONG = "MessageOutputLengthError"

_NO_CREDIT = r"insufficient.(quota|credit)|exceeded your.*quota|billing"
TABLE = FailureTable(
    rules=(
        *by_name(
            {
                "ProviderAuthError": "not_signed_in",
                OVERFLOW: "context_overflow",
                "ContentFilterError": "refused",
                _TOO_LONG: "output_limit",
                "ProviderModelNotFoundError": "model_not_found",
            }
        ),
        FailureRule("billing", status=429, text=_NO_CREDIT),
        *KNOWN_STATUS,
        OTHER_STATUS,
        # Over ACP the status is not sent, and a model that is not configured has none.
        *by_text(
            (_NO_CREDIT, "billing"),
            (r"\bmodel\b.*(not found|not exist)", "model_not_found"),
            (r"api.?key|unauthori[sz]ed|forbidden|authentication", "not_signed_in"),
            (r"rate.?limit|too many requests", "rate_limited"),
            (r"context (window|length)|prompt is too long", "context_overflow"),
        ),
        FailureRule("api_error", name="APIError"),
    ),
    hints={
        "not_signed_in": "run `opencode auth login`, or set the key of the model's provider",
        "billing": "add credit to the provider's account, or use another provider's model",
        "model_not_found": "`tillerman models -a opencode` lists the models; choose one with -m",
    },
    retry_client_errors=True,
)
_HIDDEN = "Unexpected server error."
_HIDDEN_HINT = "OpenCode gives no reason; the model is probably unknown: choose one with -m"


def failure(error: Table) -> Failure:
    """Maps `{name, data: {message, statusCode, responseHeaders, responseBody}}`."""
    name, data = text(error, "name"), table(error, "data")
    message = text(data, "message") or text(error, "message") or name or "it gave no reason"
    found = TABLE.read(
        f"{message}\n{text(data, 'responseBody')}",
        name=name,
        status=count(data, "statusCode"),
        retry_after=_wait(table(data, "responseHeaders")),
    )
    hint = _HIDDEN_HINT if message.startswith(_HIDDEN) else found.hint
    return replace(found, message=message.split("\n    at ")[0], hint=hint)


def _wait(headers: Table) -> float | None:
    try:
        return min(max(float(text(headers, "retry-after")), 0.0), 1e6)
    except ValueError:
        return None


def of_answer(data: Table) -> Failure | None:
    """Maps a stored answer; None: it is complete, or was cancelled."""
    error = table(data, "error")
    if error and text(error, "name") != ABORTED:
        return failure(error)
    return of_finish(text(data, "finish"))


def of_finish(reason: str) -> Failure | None:
    """Maps the reason for which the model ended its answer; None: it is complete."""
    if reason == "length":
        return TABLE.read("the answer exceeds the model's output limit", name=_TOO_LONG)
    return None
