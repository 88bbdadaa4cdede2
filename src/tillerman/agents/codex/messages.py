"""Emits Codex's text and reasoning blocks once: as they stream, plus what the full item adds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tillerman.agents.decoding.fields import Table, count, strings, text
from tillerman.agents.decoding.streamed_text import Streamed
from tillerman.core.events import Event, MessageChunk, MessageWithdrawn, ThoughtChunk

MOST_OPEN = 1_000  # blocks: an agent may start any number


class _Block(NamedTuple):
    parent: str | None
    told: Streamed


class CodexMessages:
    """Blocks are identified by their item, reasoning also by its index in it."""

    def __init__(self) -> None:
        self._open: dict[str, _Block] = {}  # not received in full yet
        self.last = ""  # the last message of the main thread

    def message(self, params: Table, parent: str | None) -> tuple[Event, ...]:
        """Handles a delta of an `agentMessage` or a `plan`."""
        return self.hear(text(params, "itemId"), MessageChunk, text(params, "delta"), parent)

    def thought(self, params: Table, parent: str | None, *, summary: bool) -> tuple[Event, ...]:
        place = _place(count(params, "summaryIndex" if summary else "contentIndex"), summary)
        block = f"{text(params, 'itemId')}:{place}"
        return self.hear(block, ThoughtChunk, text(params, "delta"), parent)

    def hear(
        self, block: str, kind: type[MessageChunk | ThoughtChunk], words: str, parent: str | None
    ) -> tuple[Event, ...]:
        if not words:
            return ()
        streamed = self._open.get(block)
        if streamed is None:
            streamed = self._open[block] = _Block(parent, Streamed())
            if len(self._open) > MOST_OPEN:
                del self._open[next(iter(self._open))]
        streamed.told.add(words)
        return (kind(message_id=block, text=words, parent=parent),)

    def whole(self, item: Table, parent: str | None) -> Iterator[Event]:
        """Handles the complete item."""
        item_id = text(item, "id")
        if text(item, "type") == "reasoning":
            for summary, key in ((True, "summary"), (False, "content")):
                for index, said in enumerate(strings(item, key)):
                    block = f"{item_id}:{_place(index, summary)}"
                    yield from self._complete(block, ThoughtChunk, said, parent)
            return
        said = text(item, "text")
        if parent is None:
            self.last = said
        yield from self._complete(item_id, MessageChunk, said, parent)

    def broken(self, parent: str | None) -> Iterator[Event]:
        """Withdraws the open blocks of a broken stream, which are sent again."""
        for block in [id for id, streamed in self._open.items() if streamed.parent == parent]:
            del self._open[block]
            yield MessageWithdrawn(message_id=block, parent=parent)

    def rest(self) -> None:
        """Ends the turn: its messages are kept."""
        self._open.clear()
        self.last = ""

    def _complete(
        self, block: str, kind: type[MessageChunk | ThoughtChunk], said: str, parent: str | None
    ) -> Iterator[Event]:
        streamed = self._open.pop(block, None)
        told = streamed.told if streamed else Streamed()
        if said and not told.begins(said):
            yield MessageWithdrawn(message_id=block, parent=parent)
            yield kind(message_id=f"{block}:whole", text=said, parent=parent)
        elif rest := said[told.length :]:
            yield kind(message_id=block, text=rest, parent=parent)


def _place(index: int, summary: bool) -> str:
    return str(index) if summary else f"raw{index}"
