"""Holds a turn to its limits, of time and of what it uses: stops the agent once, and says why."""

from __future__ import annotations

from collections.abc import Callable

from bridle.core.events import Event, UsageReported
from bridle.core.failure import Failure
from bridle.sessions.clocks import Clocks
from bridle.sessions.meter import Meter
from bridle.sessions.terms import Limits


class Guard:
    """`stop` is called when a limit is passed."""

    def __init__(
        self, limits: Limits, meter: Meter, clocks: Clocks, stop: Callable[[Failure], None]
    ) -> None:
        self._limits = limits
        self._meter = meter
        self._clocks = clocks
        self._stop = stop
        self.watches = meter.watches
        self.verdict: Failure | None = None  # why the turn ends, whatever the agent says

    def begin_turn(self) -> None:
        self.verdict = None
        limit = self._limits.turn
        self._clocks.start("turn", limit, self._late, "the turn", limit)

    def end_turn(self) -> None:
        """The clock runs on for what works in the background."""
        self.verdict = None

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

    def use(self, usage: UsageReported) -> None:
        self._judge(self._meter.use(usage))

    def count(self, event: Event) -> None:
        self._judge(self._meter.count(event))

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
