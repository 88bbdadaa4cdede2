"""Fallback policy after a failure: retry later, switch to the next agent, or stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from tillerman.core.errors import TillermanError
from tillerman.core.failure import Failure, FailureKind
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan

RETRY_DELAY = 30.0  # seconds before retrying a rate limit without a reset time
MOST_WAITS = 30  # per turn: a limit that always ends soon would be retried endlessly

# Failures after which another agent may still do the task.
FAILED: frozenset[FailureKind] = frozenset({
    "not_installed", "not_signed_in", "rate_limited", "billing", "model_not_found", "api_error",
    "stream_broken", "agent_failed", "agent_crashed",
})  # fmt: skip
UNUSABLE: frozenset[FailureKind] = frozenset({"not_installed", "not_signed_in"})
# Failures caused by something outside of the task.
_STOPPED: frozenset[FailureKind] = frozenset(
    {"not_signed_in", "rate_limited", "billing", "api_error"}
)


class RetryAfter(NamedTuple):
    seconds: float


class SwitchAgent(NamedTuple):
    """Switch to the next agent, if there is one."""


class Replay(NamedTuple):
    """Restart the same agent, with a summary that replaces its lost native history."""


class Candidate(NamedTuple):
    plan: LaunchPlan | None
    passed_over: Sequence[str]  # why others were skipped


class FallbackPolicy:
    """The fallback policy of one session. Each agent is tried once."""

    def __init__(
        self,
        rules: FallbackRules | None = None,
        others: Sequence[str] = (),
        call: Callable[[str], Awaitable[LaunchPlan]] | None = None,
        kinds: frozenset[FailureKind] = FAILED,
    ) -> None:
        """`kinds`: failures after which another agent continues, without visible output so far."""
        self._rules = rules or FallbackRules()
        self._kinds = kinds
        self._others = list(others)
        self._call = call
        self._waited = 0.0
        self._waits = 0

    def begin(self) -> None:
        """Resets the waits for a new turn."""
        self._waited = 0.0
        self._waits = 0

    def next_step(self, failure: Failure, *, visible: bool) -> RetryAfter | SwitchAgent | None:
        """Returns the next step. `visible`: this turn already has output or actions."""
        if failure.kind == "rate_limited" and self._rules.rate_limit == "wait":
            seconds = max(0.0, failure.retry_after or RETRY_DELAY)
            if self._waited + seconds <= self._rules.wait and self._waits < MOST_WAITS:
                self._waited += seconds
                self._waits += 1
                return RetryAfter(seconds)
        return SwitchAgent() if self._can_switch(failure, visible) else None

    def stops_retries(self, failure: Failure, *, visible: bool) -> bool:
        """Whether to stop an agent that retries its rate limit by itself: because another one can
        continue, or because it would wait longer than the user allows."""
        if self._rules.rate_limit == "switch" and self._can_switch(failure, visible):
            return True
        return self._waited + (failure.retry_after or 0.0) > self._rules.wait

    def _can_switch(self, failure: Failure, visible: bool) -> bool:
        if not self._others:
            return False
        if failure.kind not in self._kinds:
            return False
        return not visible or self._passes_on(failure)

    def covers(self, failure: Failure) -> bool:
        """Whether fallback agents may replace an agent that could not be started."""
        return failure.kind in self._kinds

    async def next(self) -> Candidate:
        passed_over: list[str] = []
        while self._others and self._call:
            name = self._others.pop(0)
            try:
                return Candidate(await self._call(name), passed_over)
            except TillermanError as error:
                passed_over.append(error.message)
        return Candidate(None, passed_over)

    def _passes_on(self, failure: Failure) -> bool:
        match self._rules.handoff:
            case "always":
                return failure.kind in FAILED
            case "limits":
                refused = failure.kind == "api_error" and 400 <= (failure.status or 500) < 500
                return failure.kind in _STOPPED and not refused
            case "never":
                return False
