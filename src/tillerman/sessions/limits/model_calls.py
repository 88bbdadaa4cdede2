"""Rounds of the model in a prompt: by the calls that the agent tells, else by what shows of them.

Where calls are not told, words or tools that follow upon the result of a tool are a new round.
Tools that run one after the other within one answer are then counted too high, and a round that
shows nothing is not counted.
"""

from __future__ import annotations

from tillerman.core.events import (
    Event,
    MessageChunk,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UsageReported,
)

SHOWN: frozenset[type] = frozenset({MessageChunk, ThoughtChunk, ToolStarted, ToolFinished})


class ModelCallCounter:
    def __init__(self, before: int = 0) -> None:
        self._before = before
        self._over = 0  # calls that are told
        self._open = False  # and one more that has begun
        self._tells = False
        self._shown = 0
        self._answered = True  # a tool has its result: what comes next is a new round
        self.untold = 0  # that showed since the last report of any kind

    def anew(self) -> ModelCallCounter:
        """These, and those of a turn that begins."""
        return ModelCallCounter(self.count)

    @property
    def count(self) -> int:
        return self._before + (self._over + self._open if self._tells else self._shown)

    def told(self, usage: UsageReported) -> None:
        self.untold = 0
        match usage.call:
            case "begun":
                self._over += self._open if self._tells else 0
                self._open = self._tells = True
            case "done":
                self._over += 1
                self._open, self._tells = False, True

    def shown(self, event: Event) -> None:
        """One of SHOWN, of the agent itself."""
        if isinstance(event, ToolFinished):
            self._answered = True
            return
        if self._answered:
            self._answered = False
            self._shown += 1
            self.untold += 1
        if not isinstance(event, ToolStarted):
            self._open = True  # a call that is over says no more
