"""What one speaker says and thinks, each block once: as it streams, or whole when it did not."""

from __future__ import annotations

from collections.abc import Iterator

from bridle.core.events import Event, MessageChunk, MessageWithdrawn, ThoughtChunk


class Speech:
    """The agent's own words, or those of the subagent that works inside a call.

    The CLI streams a block in deltas and then repeats it whole. A message whose stream broke is
    sent again under another id, so what was streamed of it is taken back.
    """

    def __init__(self, parent: str | None) -> None:
        self.parent = parent
        self.said = False  # any text since the turn began
        self.broken = ""  # what had been streamed of a message that was sent again
        self._message = ""
        self._stopped = True
        self._streamed: dict[int, tuple[str, list[str]]] = {}  # blocks not repeated whole yet
        self._whole = 0  # blocks of the message that came whole

    def begin(self, message_id: str) -> Iterator[Event]:
        if not self._stopped:
            yield from self.withdraw(0)
        self._turn_to(message_id)
        self._stopped = False

    def hear(self, index: int, kind: str, text: str) -> Event:
        known = self._streamed.get(index)
        if known is None:
            known = self._streamed[index] = (kind, [])
        known[1].append(text)
        return self._chunk(index, kind, text)

    def stop(self) -> None:
        self._stopped = True

    def whole(self, message_id: str, kind: str, text: str) -> Iterator[Event]:
        """A block of text or thinking as the CLI repeats it after its deltas."""
        if message_id not in ("", self._message):
            if not self._stopped:
                yield from self.withdraw(0)
                self._stopped = True
            self._turn_to(message_id)
        index = self._whole
        self._whole += 1
        for streamed, (its_kind, _) in self._streamed.items():
            if its_kind == kind:
                del self._streamed[streamed]
                return
        if text:
            yield self._chunk(index, kind, text)

    def other(self, message_id: str) -> None:
        """A block that is not speech takes its place in the message's count."""
        if message_id not in ("", self._message) and self._stopped:
            self._turn_to(message_id)
        self._whole += 1

    def withdraw(self, first: int) -> Iterator[Event]:
        """The blocks from this one on do not count."""
        for index in [index for index in self._streamed if index >= first]:
            kind, pieces = self._streamed.pop(index)
            if kind == "text":
                self.broken = "".join(pieces)
            yield MessageWithdrawn(message_id=self._id(index), parent=self.parent)

    def _turn_to(self, message_id: str) -> None:
        self._message = message_id
        self._streamed = {}
        self._whole = 0

    def _id(self, index: int) -> str:
        return f"{self._message}:{index}"

    def _chunk(self, index: int, kind: str, text: str) -> Event:
        if kind == "thinking":
            return ThoughtChunk(message_id=self._id(index), text=text, parent=self.parent)
        self.said = True
        return MessageChunk(message_id=self._id(index), text=text, parent=self.parent)
