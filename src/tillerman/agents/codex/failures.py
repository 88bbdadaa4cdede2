"""Maps Codex's errors to the failure of a turn."""

from __future__ import annotations

from tillerman.agents.decoding.failure_reader import (
    KNOWN_STATUS,
    NO_REASON,
    NO_STATUS,
    OTHER_STATUS,
    FailureRule,
    FailureTable,
    by_name,
    by_text,
)
from tillerman.agents.decoding.fields import Table, count, parse, table, text
from tillerman.core.failure import Failure, history_lost

TABLE = FailureTable(
    rules=(
        *KNOWN_STATUS,
        *by_text(
            (r"\breason: max_output_tokens", "output_limit"),
            (r"\breason: content_filter", "refused"),
        ),
        # The limit of a plan resets, an empty account does not.
        FailureRule("billing", name="usageLimitExceeded", text="quota|billing"),
        FailureRule("stream_broken", name="responseStreamDisconnected", status=NO_STATUS),
        *by_name(
            {
                "contextWindowExceeded": "context_overflow",
                "sessionBudgetExceeded": "cost_limit",
                "usageLimitExceeded": "rate_limited",
                "rateLimitExceeded": "rate_limited",
                "flexUnavailable": "api_error",
                "serverOverloaded": "api_error",
                "policyCapacityUnavailable": "api_error",
                "internalServerError": "api_error",
                "modelNotFound": "model_not_found",
                "unauthorized": "not_signed_in",
                "cyberPolicy": "refused",
                "misalignmentPolicyViolation": "refused",
                "tooManyDenials": "denied",
                "badRequest": "api_error",
                "httpConnectionFailed": "api_error",
                "responseStreamConnectionFailed": "api_error",
                "responseTooManyFailedAttempts": "api_error",
            }
        ),
        *by_text(
            ("quota exceeded|billing details", "billing"),
            ("usage limit", "rate_limited"),
            ("does not exist or you do not have access", "model_not_found"),
            ("context window", "context_overflow"),
            ("missing environment variable", "not_signed_in"),
            ("at capacity|overloaded|connection failed", "api_error"),
            ("stream disconnected", "stream_broken"),
        ),
        OTHER_STATUS,
    ),
    hints={
        "not_signed_in": "run `codex login`, or set the key that its provider reads",
        "model_not_found": "`tillerman models -a codex` lists the models; choose one with -m",
        "cost_limit": "start a new session",
        "denied": "approve its request, or change the prompt",
    },
    status_in_text=r"\bstatus:? (\d{3})\b",
)
TOO_OLD = "update codex, or use `-a codex-exec`"

_NO_SUCH_THREAD = ("no rollout found", "invalid session id")


def failure(error: Table) -> Failure:
    """Maps the `error` of a turn or a notification: `message` and `codexErrorInfo`."""
    message = _error_message(text(error, "message")) or text(error, "additionalDetails")
    info = error.get("codexErrorInfo")
    word, status = info if isinstance(info, str) else "", 0
    if isinstance(info, dict) and info:
        word = str(next(iter(info)))
        status = count(table(info, word), "httpStatusCode")
    return TABLE.read(message or word or NO_REASON, name=word, status=status or None)


def from_words(message: str) -> Failure:
    """Maps an error text, which is all that `codex exec` gives."""
    return TABLE.read(_error_message(message) or NO_REASON)


def refusal(what: str, message: str) -> Failure:
    """Maps the error response to one of our requests."""
    if any(phrase in message for phrase in _NO_SUCH_THREAD):
        return history_lost(message)
    found = from_words(message)
    if found.kind != "agent_failed":
        return found
    hint = TOO_OLD if message.startswith("Invalid request") else ""
    return Failure(kind="agent_failed", message=f"{what} failed: {message}", hint=hint)


def _error_message(message: str) -> str:
    """Extracts the message from an error that is the API's whole response."""
    if message.startswith("{"):
        body = parse(message.encode())
        if isinstance(body, dict) and (content := text(table(body, "error"), "message")):
            return content
    return message
