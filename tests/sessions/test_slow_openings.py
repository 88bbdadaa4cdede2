"""What an agent waits for before its conversation is open is logged while it waits."""

from __future__ import annotations

import asyncio
import json

from tests.sessions.session_desk import Desk
from tillerman.core.agent import Agent, Conversation, Host, SessionSpec
from tillerman.core.events import MessageChunk, Notice

WAITS = Notice(level="info", kind="session", text="waiting 26 s to resume")


class Waiting:
    """Opens like the agent it wraps, once it may."""

    def __init__(self, agent: Agent, may: asyncio.Event) -> None:
        self.info = agent.info
        self._agent = agent
        self._may = may

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        host.report(WAITS)
        await self._may.wait()
        return await self._agent.open(spec, host)


async def test_a_slow_start_of_the_conversation_is_reported_while_it_lasts(desk: Desk) -> None:
    may = asyncio.Event()
    desk.agent = Waiting(desk.agent, may)
    session = await desk.start()
    prompting = asyncio.create_task(session.prompt(json.dumps([{"say": "Here."}])))
    async with asyncio.timeout(10):
        async for entry in session.entries():
            if isinstance(entry.event, Notice):
                break
    assert entry.event == WAITS
    assert not prompting.done()

    may.set()
    async with asyncio.timeout(20):
        await prompting
        await session.idle()
    log = desk.sessions.log.since(session.id, limit=100)
    assert [e.event.text for e in log if isinstance(e.event, MessageChunk)] == ["Here."]
