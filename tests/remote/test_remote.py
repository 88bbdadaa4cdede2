"""A program that drives a service: the calls and objects of `tillerman.open`, over HTTP."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import tillerman
from tests.surfaces.server.service_desk import Desk, lines_of
from tillerman.core.events import MessageChunk, PermissionRequested, TurnEnded, encode
from tillerman.remote.http_client import ConnectionLost

pytestmark = pytest.mark.timeout(90)

HELLO = json.dumps([{"say": "Hello there."}])
ASKS = json.dumps([{"write": "a.txt", "text": "x\n"}, {"say": "Done."}])


@asynccontextmanager
async def connected(desk: Desk) -> AsyncIterator[tillerman.RemoteHarness]:
    async with tillerman.connect(desk.record["url"], token=desk.token) as harness:
        yield harness


async def test_a_remote_turn_gives_the_entries_that_the_store_has(house: Desk) -> None:
    async with connected(house) as harness:
        session = await harness.start("mock", cwd=house.bench.project, approve="auto")
        seen = [entry async for entry in session.run(HELLO)]
        stored = await asyncio.to_thread(lines_of, house.bench, session.id)
        assert [json.loads(encode(one)) for one in seen] == stored[: len(seen)]
        result = await session.ask(json.dumps([{"say": "Again."}]))
        assert (result.status, result.text, result.turn) == ("completed", "Again.", 2)
        transcript = await session.transcript()
        assert [turn.number for turn in transcript.turns] == [1, 2]
        assert session.id in [row.id for row in await harness.list()]
        await session.close()


async def test_a_request_is_answered_from_far_away(house: Desk) -> None:
    async with connected(house) as harness:
        session = await harness.start("mock", cwd=house.bench.project, approve="ask")
        async for entry in session.run(ASKS):
            if isinstance(entry.event, PermissionRequested):
                await session.answer(entry.event.request_id, tillerman.Answer("allow"))
                with pytest.raises(tillerman.RequestNotOpen):
                    await session.answer(entry.event.request_id, tillerman.Answer("deny"))
        assert (await session.result()).status == "completed"


async def test_a_turn_is_cancelled_and_a_file_is_attached(house: Desk) -> None:
    async with connected(house) as harness:
        session = await harness.start("mock", cwd=house.bench.project, approve="auto")
        script = json.dumps([{"say": "{files} here"}, {"hang": True}])
        kinds: list[Any] = []
        async for entry in session.run(script, files=[tillerman.File("n.txt", "", b"x")]):
            kinds.append(entry.event)
            if isinstance(entry.event, MessageChunk):
                await session.cancel()
        assert [one.reason for one in kinds if isinstance(one, TurnEnded)] == ["cancelled"]


async def test_errors_are_those_of_the_harness(house: Desk) -> None:
    folder = house.bench.project
    async with connected(house) as harness:
        with pytest.raises(tillerman.SessionNotFound):
            await harness.find("nothing")
        with pytest.raises(tillerman.AgentUnknown):
            await harness.start("nobody", cwd=folder)
        with pytest.raises(tillerman.UsageError, match="cwd"):
            await harness.start("mock")
        with pytest.raises(tillerman.UsageError, match="on_permission"):
            await harness.start("mock", cwd=folder, on_permission=lambda call: None)  # type: ignore
        with pytest.raises(tillerman.UsageError, match="approve"):
            await harness.start("mock", cwd=folder, approve="everything")  # type: ignore[arg-type]
        session = await harness.start("mock", cwd=folder)
        with pytest.raises(tillerman.SessionError, match="no turns"):
            await session.result()
    with pytest.raises(tillerman.TillermanError, match="token"):
        async with tillerman.connect(house.record["url"], token="x" * 64):
            pass
    with pytest.raises(ConnectionLost):
        async with tillerman.connect("http://127.0.0.1:9", token="x"):
            pass


async def test_a_follower_continues_after_the_service_was_killed_and_started_again(
    tmp_path: Path,
) -> None:
    from tests.surfaces.conftest import Bench

    bench = Bench(tmp_path)
    desk = Desk(bench).open()
    try:
        async with connected(desk) as harness:
            session = await harness.start("mock", cwd=bench.project, approve="auto")
            seen = [entry.seq async for entry in session.run(HELLO)]
            entries = session.entries(0)
            again = [(await anext(entries)).seq for _ in seen]
            await asyncio.to_thread(desk.kill)
            desk.options = ("--port", str(desk.port))
            await asyncio.to_thread(desk.open)
            script = json.dumps([{"say": "on we go"}])
            await asyncio.gather(session.prompt(script))
            async for entry in entries:
                again.append(entry.seq)
                if isinstance(entry.event, TurnEnded):
                    break
            await entries.aclose()  # type: ignore[attr-defined]
            assert again == list(range(1, len(again) + 1))
            assert len(again) > len(seen)
    finally:
        desk.close()
        bench.close()


def test_the_token_of_this_machine_is_found(house: Desk) -> None:
    program = (
        "import asyncio, sys, tillerman\n"
        "async def main():\n"
        "    async with tillerman.connect(sys.argv[1]) as harness:\n"
        "        print(len(await harness.list()))\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", program, house.record["url"]]
    found = subprocess.run(
        command, env=house.bench.environment, capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stderr
    elsewhere = house.bench.environment | {"TILLERMAN_HOME": "/nonexistent"}
    missing = subprocess.run(command, env=elsewhere, capture_output=True, text=True, timeout=60)
    assert "there is no token of a service on this machine" in missing.stderr
