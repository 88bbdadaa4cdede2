"""Writes the events of a session to its log: assigns turns, redacts, caps and indexes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tillerman.core.agent import DecodedLine, File
from tillerman.core.events import Attachment, Entry, Event, Notice
from tillerman.core.handoff_summary import HandoffSummary, account
from tillerman.sessions.log.appender import LogAppender
from tillerman.sessions.log.attachment_indexer import AttachmentIndexer
from tillerman.sessions.log.sanitizer import ChunkBatch, EventSanitizer
from tillerman.sessions.log.turn_numbers import TurnNumbers
from tillerman.store.group_commit import Storage

Said = tuple[bytes | None, Sequence[Event]]  # a line, and its decoded events

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
        journal: LogAppender,
        intake: EventSanitizer,
        shelf: AttachmentIndexer,
        turns: TurnNumbers,
        entries: Callable[[], Iterable[Entry]],
    ) -> None:
        self.journal = journal
        self._intake = intake
        self._shelf = shelf
        self._turns = turns
        self._entries = entries

    def write(self, event: Event, raw: bytes | None = None, *, more_follows: bool = False) -> None:
        turn = self._turns.of(event)
        self.journal.write(turn, event, raw, more_follows=more_follows)
        self._shelf.note(turn, event)

    def say(self, event: Event, raw: bytes | None = None, *, more_follows: bool = False) -> None:
        """Writes an event that tillerman made or changed, after redacting it."""
        self.write(self._intake.clean(event), raw, more_follows=more_follows)

    def say_all(self, events: Iterable[Event], raw: bytes | None = None) -> None:
        for event in events:
            self.say(event, raw)

    def take(self, batch: Sequence[DecodedLine]) -> Iterator[Said]:
        """Sanitizes an agent's output for writing, and stores its images."""
        return self._with_pictures(self._intake.take(batch))

    def take_at_once(self, batch: Sequence[DecodedLine]) -> ChunkBatch | Iterator[Said]:
        """Like `take`, but text chunks stay together, for `write_words`."""
        taken = self._intake.take_at_once(batch)
        return taken if isinstance(taken, ChunkBatch) else self._with_pictures(taken)

    def write_words(self, words: ChunkBatch) -> None:
        """Writes all chunks of a batch."""
        turn = self._turns.of(words.whole)
        self.journal.write_words(turn, words)
        self._shelf.note(turn, words.whole)

    def _with_pictures(self, taken: Iterator[DecodedLine]) -> Iterator[Said]:
        for raw, events, pictures in taken:
            if pictures:
                self._shelf.keep_bytes(pictures)
            yield raw, events
            del raw, events, pictures

    def keep(self, files: Sequence[File]) -> tuple[Attachment, ...]:
        return self._shelf.keep(files)

    def begin_turn(self) -> None:
        self._turns.begin()
        self._intake.new_turn()

    def let_go(self) -> None:
        """Flushes text that was held back, since no more follows."""
        for event in self._intake.rest():
            self.write(event)

    def end_turn(self) -> None:
        self._shelf.index(self._turns.end())

    def storage_changed(self, storage: Storage) -> None:
        """Logs that storage is full or free again, so that readers know why the agent is paused."""
        if storage == "full" and self._turns:
            self.journal.write_urgent(self._turns.current, _NO_SPACE)
        elif storage == "ok" and self._turns:
            self.write(_SPACE_AGAIN)

    async def last_said(self) -> str:
        """Returns the agent's last message in the newest turn."""
        from tillerman.core.transcript import fold
        from tillerman.core.turn_result import final_text

        self.let_go()
        await self.journal.durable()
        turns = fold(self._entries()).turns
        return final_text(turns[-1]) if turns else ""

    async def past(self) -> HandoffSummary:
        """Returns a handoff summary of the log so far."""
        await self.journal.durable()
        return account(self._entries())
