"""Receives a conversation's events in the background, so that a test can wait for some."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tillerman.core.agent import Agent, Conversation, DecodedLine, Host, Prompt, SessionSpec
from tillerman.core.events import (
    Answer,
    Event,
    MessageChunk,
    PermissionRequested,
    QuestionAsked,
    TurnEnded,
)

MAX_WAIT = 10.0


class Listener:
    def __init__(self, conversation: Conversation, answer: Answer | None) -> None:
        self.conversation = conversation
        self.received: list[DecodedLine] = []
        self.ended = asyncio.Event()
        self._answer = answer
        self._updates = asyncio.Condition()
        self._task = asyncio.create_task(self._listen())

    @property
    def events(self) -> list[Event]:
        return [event for received in self.received for event in received.events]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, MessageChunk))

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, condition: Callable[[], object], within: float = MAX_WAIT) -> None:
        async with asyncio.timeout(within), self._updates:
            await self._updates.wait_for(lambda: condition() or self._task.done())
        if self._task.done():
            self._task.result()
        assert condition(), self.events

    async def turn(self, text: str, *, within: float = MAX_WAIT) -> list[Event]:
        """Prompts, and returns the events until the turn's end."""
        before, ends = len(self.events), len(self.of(TurnEnded))
        await self.conversation.prompt(Prompt(text))
        await self.until(lambda: len(self.of(TurnEnded)) > ends, within)
        return self.events[before:]

    async def over(self, within: float = MAX_WAIT) -> None:
        """Waits until the conversation sends no more events."""
        async with asyncio.timeout(within):
            await asyncio.shield(self._task)

    async def _listen(self) -> None:
        try:
            async for batch in self.conversation.batches():
                self.received += batch
                await self._report()
                for event in [event for received in batch for event in received.events]:
                    if self._answer and isinstance(event, PermissionRequested | QuestionAsked):
                        await self.conversation.answer(event.request_id, self._answer)
        finally:
            await self._report()

    async def _report(self) -> None:
        async with self._updates:
            self._updates.notify_all()


@asynccontextmanager
async def listening(
    agent: Agent, spec: SessionSpec, host: Host, *, answer: Answer | None = None
) -> AsyncIterator[Listener]:
    listener = Listener(await agent.open(spec, host), answer)
    try:
        yield listener
    finally:
        await listener.conversation.close()
        await listener.over()
