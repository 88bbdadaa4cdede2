"""Decodes Codex's text and reasoning: deltas as they stream, plus what the full item adds."""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.agents.decoding.fields import Table, count, strings, text
from tillerman.agents.decoding.message_assembler import MessageAssembler
from tillerman.core.events import Event


class CodexMessages(MessageAssembler):
    """Blocks are identified by their item, reasoning also by its index in it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""  # the last message of the main thread

    def message(self, params: Table, parent: str | None) -> tuple[Event, ...]:
        """Handles a delta of an `agentMessage` or a `plan`."""
        return self.add(text(params, "itemId"), text(params, "delta"), parent=parent)

    def thought(self, params: Table, parent: str | None, *, summary: bool) -> tuple[Event, ...]:
        place = _place(count(params, "summaryIndex" if summary else "contentIndex"), summary)
        block = f"{text(params, 'itemId')}:{place}"
        return self.add(block, text(params, "delta"), thought=True, parent=parent)

    def whole(self, item: Table, parent: str | None) -> Iterator[Event]:
        """Handles the complete item."""
        item_id = text(item, "id")
        if text(item, "type") == "reasoning":
            for summary, key in ((True, "summary"), (False, "content")):
                for index, message in enumerate(strings(item, key)):
                    block = f"{item_id}:{_place(index, summary)}"
                    yield from self.complete(block, message, thought=True, parent=parent)
            return
        message = text(item, "text")
        if parent is None:
            self.last = message
        yield from self.complete(item_id, message, parent=parent)

    def broken(self, parent: str | None) -> Iterator[Event]:
        """Withdraws the open blocks of a broken stream, which are sent again."""
        for id in [id for id, block in self.open.items() if block.parent == parent]:
            yield self.withdraw(id, parent)

    def end_turn(self) -> None:
        """Ends the turn: its messages are kept."""
        self.open.clear()
        self.last = ""


def _place(index: int, summary: bool) -> str:
    return str(index) if summary else f"raw{index}"
