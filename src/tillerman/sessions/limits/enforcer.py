"""Holds a turn to its limits, of time and of what it uses: stops the agent once, and says why."""

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
    """`stop` is called when a limit is passed, `warn` when one cannot be held for now."""

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
        self.verdict: Failure | None = None  # why the turn ends, whatever the agent says

    def begin_turn(self) -> None:
        """One that an agent begins by itself when a limit is passed already goes no further."""
        self.verdict = None
        limit = self._limits.turn
        self._clocks.start("turn", limit, self._late, "the turn", limit)
        self.begin_work()
        self._judge(self._meter.over())

    def begin_work(self) -> None:
        """Of an agent within the turn, which may not be the first."""
        self._meter.begin_turn()
        self._warned = ""

    def end_turn(self) -> None:
        """The clock runs on for what works in the background."""
        self.verdict = None

    def condemn(self, why: Failure) -> None:
        """The agent is ended already; a limit that it passed tells less."""
        self.verdict = why

    def await_words(self) -> None:
        """An agent that says nothing is stuck."""
        limit = self._limits.idle
        self._clocks.start("idle", limit, self._late, "silence", limit)

    def pause(self) -> None:
        """It is we who keep the agent waiting."""
        self._clocks.stop("idle")

    def rest(self) -> None:
        self._clocks.stop("turn")
        self._clocks.stop("idle")

    def use(self, usage: UsageReported, model: str | None) -> None:
        self._judge(self._meter.use(usage, model))

    def check_price(self, agent: AgentInfo, model: str | None) -> None:
        """As soon as the model is known, and before the agent has spent more than it must."""
        failure = self._meter.check_price(model)
        if failure is None or not agent.can.isdisjoint(REPORTS_COST):
            return
        if not self._limits.accept_unpriced:
            self._judge(failure)
            return
        text = f"{failure.message}: {agent.name} goes on without that limit"
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
                message=f"{what} lasted longer than {limit:g} s",
                hint="raise the limit with --timeout, or [limits] in the config",
            )
        )

    def _judge(self, failure: Failure | None) -> None:
        if failure and not self.verdict:
            self.verdict = failure
            self._stop(failure)
