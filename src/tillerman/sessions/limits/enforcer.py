"""Enforces a turn's limits on time and usage: stops the agent once, and records the reason."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import NamedTuple

from tillerman.core.agent import AgentInfo
from tillerman.core.capabilities import REPORTS_COST
from tillerman.core.events import Event, UsageReported
from tillerman.core.failure import Failure
from tillerman.sessions.limits.timers import Timers
from tillerman.sessions.limits.usage_meter import UsageMeter
from tillerman.sessions.run_settings import TurnLimits


class StopAgent(NamedTuple):
    """A limit is exceeded."""

    why: Failure


class WarnUser(NamedTuple):
    """A limit cannot be enforced yet."""

    text: str


LimitEffects = Sequence[StopAgent | WarnUser]


class LimitEnforcer:
    """Enforces the limits of a session's turns; its methods return what the runner has to do."""

    def __init__(self, limits: TurnLimits, meter: UsageMeter, timers: Timers) -> None:
        self._limits = limits
        self._meter = meter
        self._timers = timers
        self._warned = ""
        self._silent_since: float | None = None  # None: the agent waits for tillerman
        self._idle_timer = False  # it runs
        self.watches = meter.watches
        self.violation: Failure | None = None  # overrides the end that the agent reports

    def begin_turn(self) -> LimitEffects:
        """Starts the limits of a turn; stops it if a limit is already exceeded."""
        self.violation = None
        self._timers.start("turn", self._limits.turn)
        self.begin_work()
        return self._exceeded(self._meter.over())

    def begin_work(self) -> None:
        """Starts the work of an agent in the turn, which may be a fallback agent."""
        self._meter.begin_turn()
        self._warned = ""

    def end_turn(self) -> None:
        """Ends the turn. Its timer keeps running for background tasks."""
        self.violation = None

    def fail_turn(self, why: Failure) -> None:
        """Fails the turn for a reason that takes precedence over exceeded limits."""
        self.violation = why

    def expect_output(self) -> None:
        """Starts the idle timer: an agent without output is stuck."""
        if self._limits.idle is not None:
            self._silent_since = monotonic()
            if not self._idle_timer:
                self._start_idle_timer(self._limits.idle)

    def pause(self) -> None:
        """Suspends the idle limit while the agent waits for tillerman."""
        self._silent_since = None

    def rest(self) -> None:
        self._timers.stop("turn")
        self._timers.stop("idle")
        self._silent_since, self._idle_timer = None, False

    def expired(self, timer: str) -> LimitEffects:
        """Handles the end of the timer of the turn, or of the idle timer."""
        if timer == "turn":
            return self._late("the turn", self._limits.turn or 0)
        return self._check_silence(self._limits.idle or 0)

    def _start_idle_timer(self, seconds: float) -> None:
        self._idle_timer = True
        self._timers.start("idle", seconds)

    def _check_silence(self, limit: float) -> LimitEffects:
        """Restarts the timer if there was output meanwhile, rather than at each output."""
        self._idle_timer = False
        if self._silent_since is None:
            return ()
        left = self._silent_since + limit - monotonic()
        if left <= 0:
            return self._late("silence", limit)
        self._start_idle_timer(left)
        return ()

    def use(self, usage: UsageReported, model: str | None) -> LimitEffects:
        return self._exceeded(self._meter.use(usage, model))

    def check_price(self, agent: AgentInfo, model: str | None) -> LimitEffects:
        """Checks that the model has a price, as soon as the model is known."""
        failure = self._meter.check_price(model)
        if failure is None or not agent.can.isdisjoint(REPORTS_COST):
            return ()
        if not self._limits.accept_unpriced:
            return self._exceeded(failure)
        return self._warn(f"{failure.message}: {agent.name} continues without that limit")

    def count(self, event: Event, agent: str) -> LimitEffects:
        exceeded = self._exceeded(self._meter.count(event))
        text = self._meter.gap(agent)
        return (*exceeded, *(self._warn(text) if text else ()))

    def _late(self, what: str, limit: float) -> LimitEffects:
        return self._exceeded(
            Failure(
                kind="timed_out",
                message=f"{what} exceeded its limit of {limit:g} s",
                hint="raise the limit with --timeout, or [limits] in the config",
            )
        )

    def _warn(self, text: str) -> LimitEffects:
        """Warns once for each reason."""
        if text == self._warned:
            return ()
        self._warned = text
        return (WarnUser(text),)

    def _exceeded(self, failure: Failure | None) -> LimitEffects:
        if failure is None or self.violation:
            return ()
        self.violation = failure
        return (StopAgent(failure),)
