"""Emits the agent's text and thoughts once, although the CLI repeats them.

With partial output a segment comes in chunks (`timestamp_ms`, no `model_call_id`) and then again as
a whole, before a tool call or at the end of the turn; otherwise only as a whole. So of a whole
segment only the part after its chunks is emitted.
"""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.agents.decoding.message_assembler import MessageAssembler, chunk
from tillerman.core.events import Event


class CursorMessages(MessageAssembler):
    """The messages of one turn; a segment is a block."""

    def __init__(self) -> None:
        super().__init__()
        self.said = False  # any text in this turn
        self._number = 1
        self._retried = False
        self._thoughts = 1

    def receive(self, line: Table) -> Iterator[Event]:
        """Handles a line of type `assistant`."""
        parts = tables(table(line, "message"), "content")
        words = "".join(text(part, "text") for part in parts)
        if "timestamp_ms" in line and "model_call_id" not in line:
            yield from self._report(words)
        else:
            yield from self._whole(words)

    def think(self, line: Table) -> Iterator[Event]:
        """Handles a line of type `thinking`."""
        if text(line, "subtype") == "completed":
            self._thoughts += 1
        elif words := text(line, "text"):
            yield chunk(f"thought-{self._thoughts}", words, thought=True)

    def interrupt(self) -> None:
        """A tool is called: starts a new segment."""
        if self.streamed(self._id):
            self._next()

    def retry(self) -> None:
        """The request is retried; the segment may be sent from its beginning, or continue."""
        self._retried = True

    def result(self, words: str) -> Iterator[Event]:
        """Emits the whole text of the turn, if none came before."""
        if not self.said:
            yield from self._report(words)

    def _whole(self, words: str) -> Iterator[Event]:
        rest = self.rest(self._id, words)
        if rest is None:
            if self._retried:
                yield self.withdraw(self._id)
            self._next()
            rest = words
        yield from self._report(rest)
        self._next()

    def _report(self, words: str) -> Iterator[Event]:
        self.said = self.said or bool(words)
        yield from self.add(self._id, words)

    def _next(self) -> None:
        self.close(self._id)
        self._number += 1
        self._retried = False

    @property
    def _id(self) -> str:
        return f"message-{self._number}"
