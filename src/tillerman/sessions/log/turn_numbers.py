"""Assigns turn numbers to events: events of a tool call keep the turn that started it."""

from __future__ import annotations

from tillerman.core.events import Event, ToolFinished, ToolStarted, ToolUpdated

_OF_CALLS = frozenset({ToolStarted, ToolUpdated, ToolFinished})
REMEMBERED = 10_000  # calls; an agent may start any number


class TurnNumbers:
    def __init__(self, last: int = 0) -> None:
        self.last = last  # number of the newest turn
        self._open: int | None = None
        self._of_call: dict[int, int] = {}  # by hash, since an id may be of any length

    def __bool__(self) -> bool:
        return self._open is not None

    @property
    def current(self) -> int:
        return self.last if self._open is None else self._open

    def begin(self) -> int:
        self.last += 1
        self._open = self.last
        return self.last

    def end(self) -> int | None:
        """Ends the turn and returns its number; None if none was open."""
        ended, self._open = self._open, None
        return ended

    def of(self, event: Event) -> int:
        if event.parent is None and type(event) not in _OF_CALLS:
            return self.current
        turn = self._of_call.get(hash(event.parent)) if event.parent else None
        match event:
            case ToolStarted(call_id=call_id):
                turn = turn or self.current
                self._of_call[hash(call_id)] = turn
                if len(self._of_call) > REMEMBERED:
                    del self._of_call[next(iter(self._of_call))]
            case ToolUpdated(call_id=call_id) | ToolFinished(call_id=call_id):
                turn = turn or self._of_call.get(hash(call_id))
        return turn or self.current
