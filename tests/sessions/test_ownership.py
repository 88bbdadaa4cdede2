"""One process runs a session; others follow it, send commands, and take over when it dies."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from tests.sessions.other_owner import Owner, everything, until
from tests.sessions.session_desk import Desk
from tillerman.core.errors import RequestNotOpen, SessionBusy, SessionError
from tillerman.core.events import (
    AgentExited,
    Answer,
    Entry,
    MessageChunk,
    PermissionRequested,
    RequestAnswered,
    TurnEnded,
)


@pytest.fixture
async def second(desk: Desk) -> AsyncIterator[Desk]:
    yield desk


async def test_a_second_terminal_sees_the_same_entries_and_answers(second: Desk) -> None:
    owner = await Owner.start(second, "permission")
    attached = second.sessions.attach(second.sessions.catalog.get(owner.session))
    asked = (await until(attached, PermissionRequested, [])).event
    assert isinstance(asked, PermissionRequested)
    following = asyncio.create_task(everything(attached))
    await attached.answer(asked.request_id, Answer("allow"), surface="second")
    with pytest.raises(RequestNotOpen):
        await attached.answer(asked.request_id, Answer("deny"))
    printed = await owner.printed()
    followed = await following
    assert followed[: len(printed)] == printed
    assert [type(entry.event) for entry in followed[len(printed) :]] == [AgentExited]
    assert RequestAnswered(
        request_id=asked.request_id, answer=Answer("allow"), by="person", surface="second"
    ) in [entry.event for entry in printed]
    assert (second.project / "note.txt").exists()
    assert await owner.process.wait() == 0


async def test_a_second_terminal_cancels_the_turn(second: Desk) -> None:
    owner = await Owner.start(second, "hang")
    attached = second.sessions.attach(second.sessions.catalog.get(owner.session))
    await until(attached, MessageChunk, [])
    await attached.cancel()
    assert TurnEnded(reason="cancelled") in [entry.event for entry in await owner.printed()]


async def test_a_second_terminal_prompts_and_its_prompt_is_queued(second: Desk) -> None:
    owner = await Owner.start(second, "steer")
    attached = second.sessions.attach(second.sessions.catalog.get(owner.session))
    await until(attached, MessageChunk, [])
    await attached.prompt('[{"say": "second turn"}]', when_busy="queue")
    await attached.prompt("left", when_busy="steer")
    entries = await owner.printed()
    ends = [entry.turn for entry in entries if isinstance(entry.event, TurnEnded)]
    assert ends == [1, 2]


async def test_a_session_with_a_living_owner_is_not_taken_over(second: Desk) -> None:
    owner = await Owner.start(second, "hang")
    with pytest.raises(SessionBusy):
        await second.resume(owner.session)
    with pytest.raises(SessionBusy):
        await second.sessions.delete(second.sessions.catalog.get(owner.session))
    assert await second.sessions.recover() == []
    await owner.die()


async def test_when_the_owner_is_killed_the_second_takes_over_and_no_printed_entry_is_lost(
    second: Desk,
) -> None:
    owner = await Owner.start(second, "permission")
    attached = second.sessions.attach(second.sessions.catalog.get(owner.session))
    seen: list[Entry] = []
    await until(attached, PermissionRequested, seen)
    following = asyncio.create_task(everything(attached))
    await asyncio.sleep(0)
    await owner.die()
    assert (await following)[: len(seen)] == seen
    with pytest.raises(SessionError):
        await attached.cancel()

    session = await second.resume(owner.session, approve="auto")
    entries = second.sessions.log.since(session.id)
    assert entries[: len(seen)] == seen
    ends = [entry for entry in entries if isinstance(entry.event, TurnEnded)]
    assert [end.turn for end in ends] == [1]
    assert isinstance(ends[0].event, TurnEnded) and ends[0].event.failure
    assert ends[0].event.failure.kind == "harness_died"
    result = await session.ask('[{"say": "Before: {before}"}]')
    assert (result.status, result.turn) == ("completed", 2)
    assert "go" in result.text


async def test_a_turn_left_open_by_a_dead_owner_is_ended_once_by_the_next_one(
    second: Desk,
) -> None:
    owner = await Owner.start(second, "hang")
    attached = second.sessions.attach(second.sessions.catalog.get(owner.session))
    await until(attached, MessageChunk, [])
    await owner.die()
    assert await second.sessions.recover() == [owner.session]
    assert await second.sessions.recover() == []
    entries = second.sessions.log.since(owner.session)
    assert [e.turn for e in entries if isinstance(e.event, TurnEnded)] == [1]


async def test_the_socket_is_private_to_the_user(desk: Desk) -> None:
    session = await desk.start("hello")
    path = desk.paths.socket(session.id)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    assert oct(path.parent.stat().st_mode & 0o777) == "0o700"
    await session.close()
    assert not path.exists()


async def test_an_invalid_request_is_answered_with_an_error(desk: Desk) -> None:
    session = await desk.start("hello")
    reader, writer = await asyncio.open_unix_connection(desk.paths.socket(session.id))
    for line in (b"not json\n", b'{"type":"from tomorrow"}\n', b'{"type":"cancel"}\n'):
        writer.write(line)
    answers = [await reader.readline() for _ in range(3)]
    writer.close()
    assert [b'"error":"UsageError"' in answer for answer in answers] == [True, True, False]
    assert answers[2] == b'{"ok":true}\n'
    assert os.getpid() == desk.sessions.catalog.get(session.id).owner_pid
