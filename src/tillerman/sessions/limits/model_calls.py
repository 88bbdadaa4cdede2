"""Counts model calls of a prompt: as reported by the agent, else inferred from its output.

If calls are not reported, text or tools after a tool result are a new call. Tools that run one
after the other within one answer are then counted too high, and a call without visible output is
not counted.
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
        self._over = 0  # finished calls, as reported
        self._open = False  # and one more that has begun
        self._reported = False
        self._shown = 0
        self._answered = True  # a tool has its result: what follows is a new call
        self.unreported = 0  # inferred calls since the last report of any kind

    def for_next_turn(self) -> ModelCallCounter:
        """Returns a counter for a new turn that continues this count."""
        return ModelCallCounter(self.count)

    @property
    def count(self) -> int:
        return self._before + (self._over + self._open if self._reported else self._shown)

    def usage_reported(self, usage: UsageReported) -> None:
        self.unreported = 0
        match usage.call:
            case "begun":
                self._over += self._open if self._reported else 0
                self._open = self._reported = True
            case "done":
                self._over += 1
                self._open, self._reported = False, True

    def shown(self, event: Event) -> None:
        """Counts an event of a type in SHOWN, of the agent itself."""
        if isinstance(event, ToolFinished):
            self._answered = True
            return
        if self._answered:
            self._answered = False
            self._shown += 1
            self.unreported += 1
        if not isinstance(event, ToolStarted):
            self._open = True  # output means that a call is in progress
