"""The log stages between an agent's line and the store."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.sessions.session_desk import Desk
from tillerman.core.errors import StoreError, TillermanError
from tillerman.core.events import (
    AgentStarted,
    MessageChunk,
    Notice,
    PermissionRequested,
    ToolStarted,
    TurnStarted,
)


async def test_every_entry_of_a_line_has_the_line(desk: Desk) -> None:
    """A request and the policy's answer to it come from one line."""
    session = await desk.start("permission")
    entries = [entry async for entry in session.run("go")]
    for entry in entries:
        if isinstance(entry.event, ToolStarted | PermissionRequested):
            raw = json.loads(desk.sessions.log.raw(session.id, entry.seq) or b"null")
            assert raw["tool"] == "write"
        elif isinstance(entry.event, TurnStarted):
            assert desk.sessions.log.raw(session.id, entry.seq) is None


async def test_run_yields_the_session_from_its_first_entry_and_nothing_twice(desk: Desk) -> None:
    session = await desk.start()
    first = [entry async for entry in session.run('[{"say": "One."}]')]
    second = [entry async for entry in session.run('[{"say": "Two."}]')]
    assert isinstance(first[0].event, AgentStarted)
    assert [entry.seq for entry in first + second] == list(range(1, len(first + second) + 1))


async def test_when_the_store_refuses_an_entry_the_session_ends_with_an_error(desk: Desk) -> None:
    session = await desk.start("hang")
    await session.prompt("go")
    async with asyncio.timeout(10):
        async for entry in session.entries():
            if isinstance(entry.event, MessageChunk) and entry.event.text.startswith("ever"):
                break  # its last word
    # another writer takes the next numbers, which only the owner of a session may do
    row = desk.sessions.catalog.get(session.id)
    notice = Notice(level="info", kind="session", text="not the owner's")
    stolen = type(entry)(
        session=row.id, seq=session.last_seq + 1, turn=1, at=entry.at, event=notice
    )
    await asyncio.wrap_future(desk.sessions.log.append([(None, [stolen])]))
    with pytest.raises(StoreError):
        async with asyncio.timeout(10):
            await session.prompt("more", when_busy="queue")
            await session.idle()
    with pytest.raises(TillermanError):
        await session.close()
