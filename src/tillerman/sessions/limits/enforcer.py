"""Enforces a turn's limits on time and usage: stops the agent once, and records the reason."""

from __future__ import annotations

from collections.abc import Callable

from tillerman.core.agent import AgentInfo
from tillerman.core.capabilities import REPORTS_COST
from tillerman.core.events import Event, UsageReported
from tillerman.core.failure import Failure
from tillerman.sessions.limits.timers import Timers
from tillerman.sessions.limits.usage_meter import UsageMeter
from tillerman.sessions.run_settings import TurnLimits


class LimitEnforcer:
    """Enforces the limits of a session's turns.

    `stop` is called when a limit is exceeded, `warn` when one cannot be enforced yet.
    """

    def __init__(
        self,
        limits: TurnLimits,
        meter: UsageMeter,
        clocks: Timers,
        *,
        agent: Callable[[], str],
        stop: Callable[[Failure], None],
        warn: Callable[[str], None],
    ) -> None:
        self._limits = limits
        self._meter = meter
        self._clocks = clocks
        self._agent = agent
        self._stop = stop
        self._warn = warn
        self._warned = ""
        self.watches = meter.watches
        self.verdict: Failure | None = None  # why the turn fails, overriding the agent's end reason

    def begin_turn(self) -> None:
        """Starts the limits of a turn; stops it if a limit is already exceeded."""
        self.verdict = None
        limit = self._limits.turn
        self._clocks.start("turn", limit, self._late, "the turn", limit)
        self.begin_work()
        self._judge(self._meter.over())

    def begin_work(self) -> None:
        """Starts the work of an agent in the turn, which may be a fallback agent."""
        self._meter.begin_turn()
        self._warned = ""

    def end_turn(self) -> None:
        """Ends the turn. Its timer keeps running for background tasks."""
        self.verdict = None

    def condemn(self, why: Failure) -> None:
        """Fails the turn for a reason that takes precedence over exceeded limits."""
        self.verdict = why

    def await_words(self) -> None:
        """Starts the idle timer: an agent without output is stuck."""
        limit = self._limits.idle
        self._clocks.start("idle", limit, self._late, "silence", limit)

    def pause(self) -> None:
        """Stops the idle timer while the agent waits for tillerman."""
        self._clocks.stop("idle")

    def rest(self) -> None:
        self._clocks.stop("turn")
        self._clocks.stop("idle")

    def use(self, usage: UsageReported, model: str | None) -> None:
        self._judge(self._meter.use(usage, model))

    def check_price(self, agent: AgentInfo, model: str | None) -> None:
        """Checks that the model has a price, as soon as the model is known."""
        failure = self._meter.check_price(model)
        if failure is None or not agent.can.isdisjoint(REPORTS_COST):
            return
        if not self._limits.accept_unpriced:
            self._judge(failure)
            return
        text = f"{failure.message}: {agent.name} continues without that limit"
        if text != self._warned:
            self._warned = text
            self._warn(text)

    def count(self, event: Event) -> None:
        self._judge(self._meter.count(event))
        text = self._meter.gap(self._agent())
        if text and text != self._warned:
            self._warned = text
            self._warn(text)

    def _late(self, what: str, limit: float) -> None:
        self._judge(
            Failure(
                kind="timed_out",
                message=f"{what} exceeded its limit of {limit:g} s",
                hint="raise the limit with --timeout, or [limits] in the config",
            )
        )

    def _judge(self, failure: Failure | None) -> None:
        if failure and not self.verdict:
            self.verdict = failure
            self._stop(failure)
