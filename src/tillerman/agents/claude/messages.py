"""Emits each text and thinking block once: as it streams, or whole if it was not streamed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tillerman.agents.decoding.message_assembler import MessageAssembler, chunk
from tillerman.agents.decoding.streamed_text import Streamed
from tillerman.core.events import Event, MessageWithdrawn


class _Block(NamedTuple):
    id: str
    kind: str


class ClaudeMessages(MessageAssembler):
    """The messages of the main agent, or of the subagent inside a call.

    The CLI streams a block in deltas and then repeats it whole. A message whose stream broke is
    sent again under another id, so its streamed blocks are withdrawn; if nothing replaces them,
    they stay.
    """

    def __init__(self, parent: str | None) -> None:
        super().__init__()
        self.parent = parent
        self.said = False  # any text since the turn began
        self.broken = Streamed()  # text of a message that was sent again
        self._message = ""
        self._stopped = True
        self._streamed: dict[int, _Block] = {}  # not repeated whole yet
        self._whole = 0  # number of blocks received whole
        self._abandoned: list[str] = []  # blocks that the next message replaces

    def begin(self, message_id: str) -> Iterator[Event]:
        if not self._stopped:
            self.abandon(0)
        yield from self.replaced()
        self._turn_to(message_id)
        self._stopped = False

    def receive(self, index: int, kind: str, text: str) -> tuple[Event, ...]:
        block = self._streamed.get(index)
        if block is None:
            block = self._streamed[index] = _Block(self._id(index), kind)
        thought = kind == "thinking"
        self.said = self.said or not thought
        return self.add(block.id, text, thought=thought, parent=self.parent)

    def stop(self) -> None:
        self._stopped = True

    @property
    def broken_off(self) -> bool:
        """Whether a message began and was neither finished nor sent again."""
        return not self._stopped and bool(self._streamed)

    def end_turn(self) -> None:
        """Ends the turn: its messages are kept."""
        self.said, self.broken = False, Streamed()
        self._stopped = True
        self._streamed = {}
        self.open.clear()
        self._abandoned.clear()

    def whole(self, message_id: str, kind: str, text: str) -> Iterator[Event]:
        """Handles a text or thinking block that the CLI repeats after its deltas."""
        if message_id not in ("", self._message):
            if not self._stopped:
                self.abandon(0)
                self._stopped = True
            yield from self.replaced()
            self._turn_to(message_id)
        index = self._whole
        self._whole += 1
        for streamed, block in self._streamed.items():
            if block.kind == kind:
                del self._streamed[streamed]
                self.close(block.id)
                return
        if text:
            thought = kind == "thinking"
            self.said = self.said or not thought
            yield chunk(self._id(index), text, thought=thought, parent=self.parent)

    def other(self, message_id: str) -> None:
        """Counts a block that is neither text nor thinking."""
        if message_id not in ("", self._message) and self._stopped:
            self._turn_to(message_id)
        self._whole += 1

    def abandon(self, first: int) -> None:
        """Marks the blocks from this index on, to be withdrawn once something replaces them."""
        for index in [index for index in self._streamed if index >= first]:
            block = self._streamed.pop(index)
            if block.kind == "text" and block.id in self.open:
                self.broken = self.open[block.id].streamed
            self.close(block.id)
            self._abandoned.append(block.id)

    def replaced(self) -> Iterator[Event]:
        """Withdraws the abandoned blocks."""
        for block_id in self._abandoned:
            yield MessageWithdrawn(message_id=block_id, parent=self.parent)
        self._abandoned.clear()

    def _turn_to(self, message_id: str) -> None:
        self._message = message_id
        self._streamed = {}
        self.open.clear()
        self._whole = 0

    def _id(self, index: int) -> str:
        return f"{self._message}:{index}"
