"""Collects the outcome of each turn: end reason, usage, changed files, exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from tillerman.core.events import (
    Entry,
    FileChange,
    FilesChanged,
    Notice,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.core.transcript.usage_totals import added
from tillerman.surfaces.exit_codes import run_exit_code, turn_exit_code

_TELLING = frozenset({TurnStarted, TurnEnded, UsageReported, FilesChanged, Notice})


@dataclass(frozen=True)
class TurnOutcome:
    turn: int
    reason: Literal["completed", "failed", "cancelled"]
    failure: Failure | None = None
    output: Any = None
    usage: UsageReported | None = None
    files: tuple[FileChange, ...] = ()
    files_left_out: int = 0
    seconds: float | None = None

    @property
    def exit_code(self) -> int:
        return turn_exit_code(self.reason, self.failure)


@dataclass
class _Turn:
    started: str | None = None
    usage: UsageReported | None = None
    files: tuple[FileChange, ...] = ()
    files_left_out: int = 0


class Outcomes:
    """Builds turn outcomes from log entries; stores only what the outcomes need."""

    def __init__(self) -> None:
        self.ended: list[TurnOutcome] = []
        self._open: dict[int, _Turn] = {}
        self._late = False  # a limit stopped background work

    @property
    def exit_code(self) -> int:
        codes = [outcome.exit_code for outcome in self.ended]
        return run_exit_code(codes, stopped_late=self._late)

    def note(self, page: Sequence[Entry]) -> list[TurnOutcome]:
        """Processes a page of entries and returns the turns that ended in it."""
        before = len(self.ended)
        for entry in page:
            if type(entry.event) in _TELLING and entry.event.parent is None:
                self._note(entry)
        return self.ended[before:]

    def _note(self, entry: Entry) -> None:
        if isinstance(entry.event, Notice):
            self._late |= entry.event.kind == "limit" and entry.event.level == "error"
            return
        turn = self._open.get(entry.turn)
        if turn is None:
            turn = self._open[entry.turn] = _Turn()
        match entry.event:
            case TurnStarted():
                turn.started = entry.at
            case UsageReported() as usage:
                turn.usage = added(turn.usage, usage)
            case FilesChanged(files=files, left_out=left_out):
                turn.files, turn.files_left_out = files, left_out
            case TurnEnded() as end:
                del self._open[entry.turn]
                self.ended.append(_outcome(entry, turn, end))


def seconds_between(start: str, end: str) -> float:
    """Never negative, since the clock may be set back meanwhile."""
    spent = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0.0, spent.total_seconds())


def _outcome(entry: Entry, turn: _Turn, end: TurnEnded) -> TurnOutcome:
    return TurnOutcome(
        turn=entry.turn,
        reason=end.reason,
        failure=end.failure,
        output=end.result,
        usage=turn.usage,
        files=turn.files,
        files_left_out=turn.files_left_out,
        seconds=seconds_between(turn.started, entry.at) if turn.started else None,
    )
