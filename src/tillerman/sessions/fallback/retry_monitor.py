"""Stops an agent's own retries when they cannot help, or when another agent can continue."""

from __future__ import annotations

from tillerman.core.events import Notice, TurnEnded
from tillerman.core.failure import NO_RETRY_HELPS, Failure
from tillerman.sessions.fallback.policy import FallbackPolicy


class RetryWatch:
    """Watches retry notices; `ending` replaces the end of a stopped turn by the reason."""

    def __init__(self, policy: FallbackPolicy) -> None:
        self._policy = policy
        self.begin_turn()

    def begin_turn(self) -> None:
        self._refusals = 0
        self._reason: Failure | None = None

    def clear(self) -> None:
        """Forgets the reason, because the turn ends for another one."""
        self._reason = None

    def must_stop(self, retry: Notice, *, visible: bool) -> bool:
        """Whether the agent's turn must be cancelled after this retry notice.

        `visible`: this turn already has output or actions.
        """
        failure = retry.failure
        if failure and self._reason is None and self._must_stop(failure, visible):
            self._reason = failure
            return True
        return False

    def ending(self, event: TurnEnded, *, visible: bool) -> TurnEnded:
        reason, self._reason = self._reason, None
        if reason is None or (event.reason == "completed" and visible):
            return event
        return TurnEnded(reason="failed", failure=reason)

    def _must_stop(self, failure: Failure, visible: bool) -> bool:
        if failure.kind == "not_signed_in":  # the first retry may use a renewed token
            self._refusals += 1
            return self._refusals > 1
        if failure.kind == "rate_limited":
            return self._policy.stops_retries(failure, visible=visible)
        return failure.kind in NO_RETRY_HELPS
