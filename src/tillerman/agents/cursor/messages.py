"""What the agent says and thinks, without saying it twice.

With partial output a segment comes as pieces (`timestamp_ms`, no `model_call_id`) and then once
more in whole, before a tool call or at the end of the turn; without, in whole alone. So of a whole
segment only that is told which its pieces have not told yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.agents.decoding.streamed_text import Streamed
from tillerman.core.events import Event, MessageChunk, MessageWithdrawn, ThoughtChunk


class CursorMessages:
    """One turn's words."""

    def __init__(self) -> None:
        self.said = False  # anything at all
        self._told = Streamed()  # of the running segment
        self._number = 1
        self._retried = False
        self._thoughts = 1

    def hear(self, line: Table) -> Iterator[Event]:
        """A line of type `assistant`."""
        parts = tables(table(line, "message"), "content")
        words = "".join(text(part, "text") for part in parts)
        if "timestamp_ms" in line and "model_call_id" not in line:
            yield from self._tell(words)
        else:
            yield from self._whole(words)

    def think(self, line: Table) -> Iterator[Event]:
        """A line of type `thinking`."""
        if text(line, "subtype") == "completed":
            self._thoughts += 1
        elif words := text(line, "text"):
            yield ThoughtChunk(message_id=f"thought-{self._thoughts}", text=words)

    def interrupt(self) -> None:
        """A tool is called: what comes next is another segment."""
        if self._told.length:
            self._next()

    def retry(self) -> None:
        """The request is made again; the segment may be told from its beginning, or go on."""
        self._retried = True

    def result(self, words: str) -> Iterator[Event]:
        """All words of the turn, in case that none came before."""
        if not self.said:
            yield from self._tell(words)

    def _whole(self, words: str) -> Iterator[Event]:
        if self._told.begins(words):
            yield from self._tell(words[self._told.length :])
        else:
            if self._retried:
                yield MessageWithdrawn(message_id=self._id)
            self._next()
            yield from self._tell(words)
        self._next()

    def _tell(self, words: str) -> Iterator[Event]:
        if words:
            self.said = True
            self._told.add(words)
            yield MessageChunk(message_id=self._id, text=words)

    def _next(self) -> None:
        self._number += 1
        self._told = Streamed()
        self._retried = False

    @property
    def _id(self) -> str:
        return f"message-{self._number}"
