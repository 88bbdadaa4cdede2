"""Conversation that completes or corrects some events before they are published."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import ClassVar

from tillerman.agents.stdio.conversation import StdioConversation
from tillerman.core.agent import DecodedLine
from tillerman.core.events import Event


class RevisedConversation(StdioConversation):
    REVISED: ClassVar[frozenset[type]] = frozenset()  # events for which `revise` is called

    async def revise(self, events: Sequence[Event]) -> Sequence[Event]:
        """Returns the events of a line as they are published."""
        return events

    async def batches(self) -> AsyncIterator[Sequence[DecodedLine]]:
        async for batch in super().batches():
            if all(self.REVISED.isdisjoint(map(type, line.events)) for line in batch):
                yield batch
            else:
                yield [DecodedLine(raw, await self.revise(e), images) for raw, e, images in batch]
            del batch
