"""Hears a conversation in the background, so that a test can wait for what it expects."""

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

PATIENCE = 10.0


class Listener:
    def __init__(self, conversation: Conversation, answer: Answer | None) -> None:
        self.conversation = conversation
        self.heard: list[DecodedLine] = []
        self.ended = asyncio.Event()
        self._answer = answer
        self._news = asyncio.Condition()
        self._task = asyncio.create_task(self._listen())

    @property
    def events(self) -> list[Event]:
        return [event for heard in self.heard for event in heard.events]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, MessageChunk))

    def of(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, condition: Callable[[], object], within: float = PATIENCE) -> None:
        async with asyncio.timeout(within), self._news:
            await self._news.wait_for(lambda: condition() or self._task.done())
        if self._task.done():
            self._task.result()
        assert condition(), self.events

    async def turn(self, text: str, *, within: float = PATIENCE) -> list[Event]:
        """Prompts, and returns the events until the turn's end."""
        before, ends = len(self.events), len(self.of(TurnEnded))
        await self.conversation.prompt(Prompt(text))
        await self.until(lambda: len(self.of(TurnEnded)) > ends, within)
        return self.events[before:]

    async def over(self, within: float = PATIENCE) -> None:
        """Until the conversation has nothing more to say."""
        async with asyncio.timeout(within):
            await asyncio.shield(self._task)

    async def _listen(self) -> None:
        try:
            async for batch in self.conversation.batches():
                self.heard += batch
                await self._tell()
                for event in [event for heard in batch for event in heard.events]:
                    if self._answer and isinstance(event, PermissionRequested | QuestionAsked):
                        await self.conversation.answer(event.request_id, self._answer)
        finally:
            await self._tell()

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()


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
