"""Failure kinds of a turn, with retry advice and exit codes."""

from __future__ import annotations

from typing import Literal

import msgspec

FailureKind = Literal[
    "not_installed",
    "not_signed_in",
    "rate_limited",
    "billing",
    "model_not_found",
    "context_overflow",
    "output_limit",
    "refused",
    "api_error",
    "stream_broken",
    "history_lost",  # the agent no longer has the conversation to resume
    "agent_failed",  # reported by the agent itself
    "agent_crashed",  # it ended without a result
    "timed_out",
    "turn_limit",
    "cost_limit",
    "token_limit",
    "schema_mismatch",  # the answer is not what the output schema asks for
    "denied",  # stopped by policy, gate or isolation
    "gate_bypassed",  # a tool ran, or could have run, without the required approval
    "harness_died",  # written at the next start for a turn left open
]

BY_STATUS: dict[int, FailureKind] = {  # status of the upstream API; any other is an `api_error`
    401: "not_signed_in",
    402: "billing",
    403: "not_signed_in",
    404: "model_not_found",
    413: "context_overflow",
    429: "rate_limited",
}

NO_RETRY_HELPS: frozenset[FailureKind] = frozenset(
    {"not_signed_in", "billing", "model_not_found", "refused"}
)


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: FailureKind
    message: str
    status: int | None = None  # HTTP status of the upstream API
    retry_after: float | None = None  # seconds
    hint: str = ""  # what to do next


def history_lost(message: str) -> Failure:
    """The agent cannot resume its conversation; the session restarts it with the log's history."""
    hint = "the agent no longer has this conversation: start a new session"
    return Failure(kind="history_lost", message=message, hint=hint)
