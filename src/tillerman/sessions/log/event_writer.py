"""Writes the events of a session to its log: assigns turns, redacts, caps and indexes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tillerman.core.agent import DecodedLine, File
from tillerman.core.events import Attachment, Entry, Event, Notice
from tillerman.core.transcript.handoff_summary import HandoffSummary, account
from tillerman.sessions.log.appender import LogAppender
from tillerman.sessions.log.attachment_indexer import INDEXED, AttachmentIndexer
from tillerman.sessions.log.sanitizer import ChunkBatch, EventSanitizer
from tillerman.sessions.log.turn_numbers import TurnNumbers
from tillerman.store.group_commit import Storage

_NO_SPACE = Notice(
    level="error",
    kind="storage",
    text="no disk space left for the log: the agent is paused until space is free",
)
_SPACE_AGAIN = Notice(
    level="info", kind="storage", text="disk space is available again: the agent continues"
)


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
