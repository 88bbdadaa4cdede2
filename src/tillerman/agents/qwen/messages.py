"""Emits the text and thinking blocks of Qwen Code's stream once.

A block comes in deltas and then whole; a subagent's comes only whole. An API error is sent as a
last text chunk of the agent, so such a chunk is held back until it is known whether anything
follows it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.agents.decoding.message_assembler import chunk
from tillerman.core.events import Event

_API_ERROR = "[API Error: "


class QwenMessages:
    def __init__(self, parent: str | None) -> None:
        self._parent = parent
        self._message = ""
        self._block = 0
        self._streamed: set[str] = set()  # kinds not repeated whole yet
        self._held = ""

    def begin(self, message_id: str) -> None:
        self._message, self._block = message_id, 0
        self._streamed.clear()

    def receive(self, kind: str, text: str) -> Iterator[Event]:
        """Handles a chunk of a block: `text` or `thinking`."""
        yield from self.release()
        self._streamed.add(kind)
        if kind == "text" and text.startswith(_API_ERROR):
            self._held = text
        elif text:
            yield self._chunk(kind, text)

    def whole(self, message_id: str, kind: str, text: str) -> Iterator[Event]:
        if kind in self._streamed:
            self._streamed.discard(kind)
            self._block += 1
            return
        if message_id and message_id != self._message:
            self.begin(message_id)
        yield from self.receive(kind, text)
        self._streamed.discard(kind)
        self._block += 1

    def release(self) -> Iterator[Event]:
        """Emits the held-back chunk, which was not an error."""
        held, self._held = self._held, ""
        if held:
            yield self._chunk("text", held)

    def error(self) -> str:
        """The held-back API error, if any; it is not part of the message."""
        held, self._held = self._held, ""
        return held.removeprefix(_API_ERROR).removesuffix("]")

    def _chunk(self, kind: str, text: str) -> Event:
        id = f"{self._message}:{self._block}"
        return chunk(id, text, thought=kind == "thinking", parent=self._parent)
