"""Emits each block of text and thoughts once, although agents stream blocks and repeat them whole.

Each vendor's messages.py decodes its own messages into blocks with an id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tillerman.agents.decoding.streamed_text import Streamed
from tillerman.core.events import Event, MessageChunk, MessageWithdrawn, ThoughtChunk

MOST_OPEN = 1_000  # blocks: an agent may start any number


class OpenBlock(NamedTuple):
    thought: bool
    parent: str | None
    streamed: Streamed


def chunk(
    block: str, text: str, *, thought: bool = False, parent: str | None = None
) -> MessageChunk | ThoughtChunk:
    if thought:
        return ThoughtChunk(message_id=block, text=text, parent=parent)
    return MessageChunk(message_id=block, text=text, parent=parent)


class MessageAssembler:
    """The blocks of a conversation, each open from its first chunk until it came whole."""

    def __init__(self) -> None:
        self.open: dict[str, OpenBlock] = {}

    def add(
        self, block: str, text: str, *, thought: bool = False, parent: str | None = None
    ) -> tuple[Event, ...]:
        """Emits a chunk of a block."""
        if not text:
            return ()
        found = self.open.get(block)
        if found is None:
            found = self.open[block] = OpenBlock(thought, parent, Streamed())
            if len(self.open) > MOST_OPEN:
                del self.open[next(iter(self.open))]
        found.streamed.add(text)
        kind = ThoughtChunk if thought else MessageChunk  # not by `chunk`: most lines come here
        return (kind(message_id=block, text=text, parent=parent),)

    def complete(
        self, block: str, whole: str, *, thought: bool = False, parent: str | None = None
    ) -> Iterator[Event]:
        """Emits what the whole block adds to its chunks; other chunks are withdrawn."""
        rest = self.rest(block, whole)
        self.open.pop(block, None)
        if rest is None and whole:
            yield MessageWithdrawn(message_id=block, parent=parent)
            yield chunk(f"{block}:whole", whole, thought=thought, parent=parent)
        elif rest:
            yield chunk(block, rest, thought=thought, parent=parent)

    def rest(self, block: str, whole: str) -> str | None:
        """The part of a whole block after its chunks; None if it does not begin with them."""
        found = self.open.get(block)
        if found is None:
            return whole
        return whole[found.streamed.length :] if found.streamed.begins(whole) else None

    def streamed(self, block: str) -> int:
        """The number of characters that were streamed of an open block."""
        found = self.open.get(block)
        return found.streamed.length if found else 0

    def close(self, block: str) -> None:
        self.open.pop(block, None)

    def withdraw(self, block: str, parent: str | None = None) -> Event:
        self.open.pop(block, None)
        return MessageWithdrawn(message_id=block, parent=parent)
