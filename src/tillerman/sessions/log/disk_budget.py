"""How much of one turn may still go to disk, in the log and in spill files together."""

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

EXTRA = 4  # what is not mere stream may go over the cap by a quarter
LEAST_STEERING = 4 * 1024 * 1024  # bytes over the cap that what others wait for may always take

_STREAM = frozenset({MessageChunk, ThoughtChunk, ToolUpdated, Unrecognized})
_STEERING = frozenset(
    {PermissionRequested, QuestionAsked, RequestAnswered, BackgroundChanged, AgentReady}
)
_ALWAYS = frozenset({TurnStarted, TurnEnded, AgentExited})
_AT_REST = BackgroundChanged(tasks=())
_FRAME = 64  # bytes of an event besides its text


class DiskBudget:
    def __init__(self, size: int) -> None:
        self.size = size
        self._left = size
        self._told_of_rest = False

    def refill(self) -> None:
        self._left = self.size
        self._told_of_rest = False

    def spend(self, size: int, events: Sequence[Event]) -> bool:
        """Whether they may be kept."""
        if size <= self._left or self._admits(size, events):
            self._left -= size
            return True
        return False

    def _admits(self, size: int, events: Sequence[Event]) -> bool:
        """Once the cap is reached nothing that is only streamed, then only what others wait for,
        and past twice the cap only the turn's end."""
        kinds = {type(event) for event in events}
        if kinds <= _STREAM:
            self._left = min(self._left, 0)  # a shorter line must not slip through the gap
            return False
        if not kinds.isdisjoint(_ALWAYS) or size <= self._left + self.size // EXTRA:
            return True
        if kinds.isdisjoint(_STEERING):
            return False
        return size <= self._left + max(self.size, LEAST_STEERING) or self._comes_to_rest(events)

    def _comes_to_rest(self, events: Sequence[Event]) -> bool:
        """The first time of a turn: a session that never heard it would wait for ever."""
        if self._told_of_rest or _AT_REST not in events:
            return False
        self._told_of_rest = True
        return True

    def take(self, wanted: int) -> int:
        """As much of it as there is."""
        granted = max(0, min(wanted, self._left))
        self._left -= granted
        return granted


def weight(event: Event) -> int:
    """Bytes of an event, in the log or in memory; of a chunk not counted but guessed."""
    kind = type(event)
    if kind is MessageChunk or kind is ThoughtChunk:
        text = event.text  # type: ignore[union-attr]
    elif kind is Unrecognized:
        text = event.raw  # type: ignore[union-attr]
    else:
        return len(encode(event))
    return _FRAME + (len(text) if text.isascii() else 4 * len(text))
