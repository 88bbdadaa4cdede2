"""Maps Copilot's `session.error` and error texts to the failure of a turn."""

from __future__ import annotations

from tillerman.agents.decoding.failure_reader import (
    KNOWN_STATUS,
    OTHER_STATUS,
    FailureTable,
    by_name,
    by_text,
)
from tillerman.agents.decoding.fields import Table, count, text
from tillerman.core.failure import Failure

TABLE = FailureTable(
    rules=(
        *by_name(
            {
                "authentication": "not_signed_in",
                "authorization": "not_signed_in",
                "quota": "billing",
                "rate_limit": "rate_limited",
                "context_limit": "context_overflow",
                "policy": "denied",
            }
        ),
        *KNOWN_STATUS,
        *by_text(
            (r"prompt (as|is) too long|context (window|limit)", "context_overflow"),
            (r"no authentication|not (logged|signed) in|log ?in to", "not_signed_in"),
            (r"quota", "billing"),
            (r"model .*not (found|available|supported)", "model_not_found"),
            (r"missing finish_reason|stream (ended|closed)", "stream_broken"),
            (r"failed to get response from the AI model", "api_error"),
        ),
        OTHER_STATUS,
    ),
    hints={
        "not_signed_in": (
            "run `copilot login`, or set COPILOT_GITHUB_TOKEN or COPILOT_PROVIDER_API_KEY"
        ),
        "billing": (
            "wait for the next period, or use your own provider (`copilot help providers`)"
        ),
        "denied": "a policy of the account does not allow it",
    },
    status_in_text=r"\(HTTP ([45]\d\d)\)|Last error: ([45]\d\d)\b|^([45]\d\d) ",
    retry_client_errors=True,
)


def failure(error: Table) -> Failure:
    """Maps `{errorType, message, statusCode}`."""
    return failure_of(text(error, "message"), text(error, "errorType"), count(error, "statusCode"))


def failure_of(message: str, kind: str = "", status: int = 0) -> Failure:
    return TABLE.read(message or kind or "it gave no reason", name=kind, status=status or None)
