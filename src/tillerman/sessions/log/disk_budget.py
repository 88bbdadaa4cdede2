"""Disk budget of one turn: caps its bytes in the log and in spill files together."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.core.events import (
    AgentExited,
    AgentReady,
    BackgroundChanged,
    Event,
    MessageChunk,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    ThoughtChunk,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    encode,
)

EXTRA = 4  # events other than streamed text may exceed the cap by a quarter
LEAST_STEERING = 4 * 1024 * 1024  # bytes over the cap that are always left for events in _STEERING

_STREAM = frozenset({MessageChunk, ThoughtChunk, ToolUpdated, Unrecognized})
_STEERING = frozenset(
    {PermissionRequested, QuestionAsked, RequestAnswered, BackgroundChanged, AgentReady}
)
_ALWAYS = frozenset({TurnStarted, TurnEnded, AgentExited})
_NO_BACKGROUND = BackgroundChanged(tasks=())
_FRAME = 64  # bytes of an event besides its text


class DiskBudget:
    def __init__(self, size: int) -> None:
        self.size = size
        self._left = size
        self._idle_recorded = False

    def refill(self) -> None:
        self._left = self.size
        self._idle_recorded = False

    def spend(self, size: int, events: Sequence[Event]) -> bool:
        """Spends the size on the events; returns whether they may be stored."""
        if size <= self._left or self._admits(size, events):
            self._left -= size
            return True
        return False

    def _admits(self, size: int, events: Sequence[Event]) -> bool:
        """Decides above the cap: no streamed text, then only events that others wait for, and above
        twice the cap only the end of the turn."""
        kinds = {type(event) for event in events}
        if kinds <= _STREAM:
            self._left = min(self._left, 0)  # a shorter line must not fit afterwards
            return False
        if not kinds.isdisjoint(_ALWAYS) or size <= self._left + self.size // EXTRA:
            return True
        if kinds.isdisjoint(_STEERING):
            return False
        return size <= self._left + max(self.size, LEAST_STEERING) or self._becomes_idle(events)

    def _becomes_idle(self, events: Sequence[Event]) -> bool:
        """Admits a turn's first report that no background task is left: a session waits for it."""
        if self._idle_recorded or _NO_BACKGROUND not in events:
            return False
        self._idle_recorded = True
        return True

    def take(self, wanted: int) -> int:
        """Takes as many bytes as are left, up to `wanted`."""
        granted = max(0, min(wanted, self._left))
        self._left -= granted
        return granted


def weight(event: Event) -> int:
    """Bytes of an event, in the log or in memory; estimated for chunks."""
    kind = type(event)
    if kind is MessageChunk or kind is ThoughtChunk:
        text = event.text  # type: ignore[union-attr]
    elif kind is Unrecognized:
        text = event.raw  # type: ignore[union-attr]
    else:
        return len(encode(event))
    return _FRAME + (len(text) if text.isascii() else 4 * len(text))
