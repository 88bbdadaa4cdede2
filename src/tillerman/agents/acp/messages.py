"""Groups ACP text chunks into messages, with the agent's message ids or generated ones."""

from __future__ import annotations

from tillerman.agents.decoding.message_assembler import chunk
from tillerman.core.events import MessageChunk, ThoughtChunk


class AcpMessages:
    """Assigns chunks to messages; a message continues until another kind of update arrives."""

    def __init__(self, thought_head: str = "") -> None:
        self._thought_head = thought_head
        self._made = 0
        self._last: tuple[bool, str | None, str | None] | None = None
        self._id = ""

    def rest(self) -> None:
        self._last = None

    def receive(
        self, thought: bool, text: str, message_id: str | None, parent: str | None = None
    ) -> MessageChunk | ThoughtChunk | None:
        key = (thought, message_id, parent)
        if thought and self._thought_head and text:
            text = "\n" * (key == self._last) + text.removeprefix(self._thought_head)
        if key != self._last:
            if thought:
                text = text.lstrip("\n")
            if not text:
                return None
            self._last = key
            if message_id:
                self._id = message_id
            else:
                self._made += 1
                self._id = f"m{self._made}"
        elif not text:
            return None
        return chunk(self._id, text, thought=thought, parent=parent)
