"""Collects the agent's final message of a turn; spools a long one to disk."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile

from tillerman.core.events import Event, MessageChunk, MessageWithdrawn, ToolStarted
from tillerman.core.terminal_sanitizer import ControlCharRevealer

IN_MEMORY = 1024 * 1024  # bytes
BLOCK = 64 * 1024


class FinalText:
    """Incremental version of `core.result.final_text`, fed with events."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 (lives as long as self)
        self._starts: dict[str, int] = {}  # message id -> start offset
        self._acted = False  # a tool call started after the last message

    def note(self, event: Event) -> None:
        if event.parent is not None:
            return
        match event:
            case MessageChunk(message_id=message_id, text=text):
                if self._acted:
                    self.clear()
                if message_id not in self._starts:
                    self._starts[message_id] = self._file.tell()
                    if self._file.tell():
                        self._file.write(b"\n\n")
                self._file.write(text.encode("utf-8", "surrogatepass"))
            case MessageWithdrawn(message_id=message_id):
                self._withdraw(message_id)
            case ToolStarted():
                self._acted = True

    def take(self) -> Iterator[str]:
        """Yields the text with control characters revealed; ends with a newline unless empty."""
        revealer = ControlCharRevealer()
        decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
        self._file.seek(0)
        held = ""  # trailing newlines, emitted only before further text
        while data := self._file.read(BLOCK):
            text = held + revealer.feed(decoder.decode(data))
            body = text.rstrip("\n")
            held = text[len(body) :]
            yield body
        if last := revealer.end():
            yield held + last
        if self._file.tell():
            yield "\n"
        self.clear()

    def clear(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self._starts.clear()
        self._acted = False

    def _withdraw(self, message_id: str) -> None:
        """Removes a message, and the messages after it, if any."""
        start = self._starts.pop(message_id, None)
        if start is not None:
            self._file.seek(start)
            self._file.truncate()
            self._starts = {id: at for id, at in self._starts.items() if at < start}
