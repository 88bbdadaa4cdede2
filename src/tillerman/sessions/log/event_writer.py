"""Writes the events of a session to its log: assigns their turns, and indexes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tillerman.core.agent import DecodedLine, File
from tillerman.core.events import (
    Attachment,
    Entry,
    Event,
    Notice,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
)
from tillerman.core.transcript.handoff_summary import HandoffSummary, account
from tillerman.sessions.log.appender import LogAppender
from tillerman.sessions.log.attachment_indexer import INDEXED, AttachmentIndexer
from tillerman.sessions.log.sanitizer import ChunkBatch, EventSanitizer
from tillerman.store.group_commit import Storage

_NO_SPACE = Notice(
    level="error",
    kind="storage",
    text="no disk space left for the log: the agent is paused until space is free",
)
_SPACE_AGAIN = Notice(
    level="info", kind="storage", text="disk space is available again: the agent continues"
)
_OF_CALLS = frozenset({ToolStarted, ToolUpdated, ToolFinished})
REMEMBERED = 10_000  # calls; an agent may start any number


class TurnNumbers:
    """Assigns turn numbers to events: events of a tool call keep the turn that started it."""

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


class EventWriter:
    """The writing side of a session's log. `entries` reads the log from its beginning."""

    def __init__(
        self,
        appender: LogAppender,
        sanitizer: EventSanitizer,
        indexer: AttachmentIndexer,
        turns: TurnNumbers,
        entries: Callable[[], Iterable[Entry]],
    ) -> None:
        self.appender = appender
        self._sanitizer = sanitizer
        self._indexer = indexer
        self._turns = turns
        self._entries = entries

    def write(self, event: Event, raw: bytes | None = None, *, more_follows: bool = False) -> None:
        turn = self._turns.of(event)
        self.appender.write(turn, event, raw, more_follows=more_follows)
        if type(event) in INDEXED:
            self._indexer.note(turn, event)

    def write_own(
        self, event: Event, raw: bytes | None = None, *, more_follows: bool = False
    ) -> None:
        """Writes an event that tillerman made or changed, after redacting it."""
        self.write(self._sanitizer.clean(event), raw, more_follows=more_follows)

    def write_all_own(self, events: Iterable[Event], raw: bytes | None = None) -> None:
        for event in events:
            self.write_own(event, raw)

    def record(self, event: Event, *, more_follows: bool = False) -> None:
        """Writes an event that neither tillerman nor the agent made, like output of the agent."""
        for _, events, _ in self._sanitizer.sanitize([DecodedLine(None, (event,))]):
            for one in events:
                self.write(one, more_follows=more_follows)

    def write_chunks(self, chunks: ChunkBatch) -> None:
        """Writes all chunks of a batch."""
        turn = self._turns.of(chunks.whole)
        self.appender.write_chunks(turn, chunks)
        self._indexer.note(turn, chunks.whole)

    def store_images(self, pictures: Sequence[bytes]) -> None:
        self._indexer.store_images(pictures)

    def store_files(self, files: Sequence[File]) -> tuple[Attachment, ...]:
        return self._indexer.store_files(files)

    def begin_turn(self) -> None:
        self._turns.begin()
        self._sanitizer.new_turn()

    def flush(self) -> None:
        """Flushes text that was held back, since no more follows."""
        for event in self._sanitizer.flush():
            self.write(event)

    def end_turn(self) -> None:
        self._indexer.index(self._turns.end())

    def storage_changed(self, storage: Storage) -> None:
        """Logs that storage is full or free again, so that readers know why the agent is paused."""
        if storage == "full" and self._turns:
            self.appender.write_urgent(self._turns.current, _NO_SPACE)
        elif storage == "ok" and self._turns:
            self.write(_SPACE_AGAIN)

    async def last_message(self) -> str:
        """Returns the agent's last message in the newest turn."""
        from tillerman.core.transcript.transcript import fold
        from tillerman.core.transcript.turn_result import final_text

        self.flush()
        await self.appender.durable()
        turns = fold(self._entries()).turns
        return final_text(turns[-1]) if turns else ""

    async def summary_so_far(self) -> HandoffSummary:
        """Returns a handoff summary of the log so far."""
        await self.appender.durable()
        return account(self._entries())
