"""What each turn of this run came to: its answer, its numbers, its exit code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from bridle.core.events import (
    Entry,
    FileChange,
    FilesChanged,
    MessageChunk,
    MessageWithdrawn,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from bridle.core.failure import Failure, exit_code

CANCELLED = 130


@dataclass(frozen=True)
class Outcome:
    turn: int
    reason: Literal["completed", "failed", "cancelled"]
    text: str  # the last thing the agent itself said
    failure: Failure | None = None
    output: Any = None
    usage: UsageReported | None = None
    files: tuple[FileChange, ...] = ()
    files_left_out: int = 0
    seconds: float | None = None

    @property
    def exit_code(self) -> int:
        match self.reason:
            case "completed":
                return 0
            case "cancelled":
                return CANCELLED
            case "failed":
                return exit_code(self.failure)


@dataclass
class _Turn:
    said: list[tuple[str, str]] = field(default_factory=list)  # message id, chunk
    acted: bool = False  # a call began after what was said
    started: str | None = None
    usage: UsageReported | None = None
    files: tuple[FileChange, ...] = ()
    files_left_out: int = 0


class Outcomes:
    """Watches entries; keeps of a running turn only what its outcome needs."""

    def __init__(self) -> None:
        self.ended: list[Outcome] = []
        self._open: dict[int, _Turn] = {}

    @property
    def exit_code(self) -> int:
        """Of the first turn that went wrong; a turn still open was cut off."""
        codes = [outcome.exit_code for outcome in self.ended]
        return next((code for code in codes if code), 0) if codes else 1

    def note(self, page: Sequence[Entry]) -> list[Outcome]:
        """The turns that end on this page."""
        before = len(self.ended)
        for entry in page:
            if entry.event.parent is None:
                self._note(entry)
        return self.ended[before:]

    def _note(self, entry: Entry) -> None:
        turn = self._open.get(entry.turn)
        if turn is None:
            turn = self._open[entry.turn] = _Turn()
        match entry.event:
            case MessageChunk(message_id=message_id, text=text):
                if turn.acted:
                    turn.said.clear()
                    turn.acted = False
                turn.said.append((message_id, text))
            case MessageWithdrawn(message_id=gone):
                turn.said = [said for said in turn.said if said[0] != gone]
            case ToolStarted():
                turn.acted = True
            case TurnStarted():
                turn.started = entry.at
            case UsageReported() as usage:
                turn.usage = usage
            case FilesChanged(files=files, left_out=left_out):
                turn.files, turn.files_left_out = files, left_out
            case TurnEnded() as end:
                del self._open[entry.turn]
                self.ended.append(_outcome(entry, turn, end))
            case _:
                pass


def seconds_between(start: str, end: str) -> float:
    """Never negative: a clock may be set back in between."""
    spent = datetime.fromisoformat(end) - datetime.fromisoformat(start)
    return max(0.0, spent.total_seconds())


def _outcome(entry: Entry, turn: _Turn, end: TurnEnded) -> Outcome:
    return Outcome(
        turn=entry.turn,
        reason=end.reason,
        text=_joined(turn.said),
        failure=end.failure,
        output=end.result,
        usage=turn.usage,
        files=turn.files,
        files_left_out=turn.files_left_out,
        seconds=seconds_between(turn.started, entry.at) if turn.started else None,
    )


def _joined(said: list[tuple[str, str]]) -> str:
    """Messages are paragraphs; the chunks of one follow each other."""
    parts: list[str] = []
    last = None
    for message_id, chunk in said:
        if last is not None and message_id != last:
            parts.append("\n\n")
        parts.append(chunk)
        last = message_id
    return "".join(parts)
