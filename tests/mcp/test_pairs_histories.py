"""Random histories of background processes, restarts, kills, HTTP clients and waiting approvals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.mcp.http_desk import SERVE, Door, client, opened, shut
from tests.mcp.mcp_desk import Machine, tree, until
from tests.mcp.pairs_desk import names

pytestmark = pytest.mark.timeout(900)

RULE = '[[rules]]\nask = true\ncommand = "touch asked*"\n'
OWNERS = ("first", "second")
LEFT_WITHIN = 60.0  # seconds until all is gone; a warden waits 30 of them for a server


@dataclass
class Known:
    """What one started process has to be."""

    id: str
    owner: str
    mode: str
    mark: str
    word: str
    pid: int
    code: int | None = None  # it ended by itself
    runs: bool = True


class History:
    def __init__(self, machine: Machine, seed: int) -> None:
        self._machine = machine
        self._pick = random.Random(seed)
        self._number = count()
        self._seed = seed
        self._all: list[Known] = []
        self._marks: list[str] = []
        self._made: set[str] = set()
        self._doors: dict[str, Door] = {}

    # -- the server ------------------------------------------------------------------------------

    def open(self) -> None:
        named = [word for name in OWNERS for word in ("--client", name)]
        door = opened(self._machine.start(*SERVE, *named, stdin=False))
        assert door.process.stderr
        for name in OWNERS:
            door.process.stderr.readline()
            file = self._machine.tillerman / "state/mcp-tokens" / name
            self._doors[name] = Door(door.port, file.read_text().strip(), file, door.process)

    @asynccontextmanager
    async def _client(self, owner: str) -> AsyncIterator[Client]:
        async with client(self._doors[owner], self._pick.choice(("legacy", "auto"))) as made:
            yield made

    async def _call(self, owner: str, tool: str, **arguments: Any) -> Any:
        async with asyncio.timeout(60), self._client(owner) as made:
            return await made.call_tool(tool, arguments)

    def _mark(self) -> str:
        self._marks.append(f"74.{self._seed:03d}{next(self._number):03d}")
        return self._marks[-1]

    def _running(self) -> list[Known]:
        return [one for one in self._all if one.runs]

    # -- steps -----------------------------------------------------------------------------------

    async def start(self) -> None:
        owner, mode = self._pick.choice(OWNERS), self._pick.choice(("async", "background"))
        mark, word = self._mark(), f"word{next(self._number)}"
        code = self._pick.choice((None, None, 0, 3))
        rest = f"exec sleep {mark}" if code is None else f"exit {code} # {mark}"
        began = await self._call(owner, "execute_shell", command=f"echo {word}; {rest}",
                                 run_mode=mode)  # fmt: skip
        data = began.meta["tillerman/result"]
        process = Known(data["process_id"], owner, mode, mark, word, data["pid"], code)
        self._all.append(process)
        if code is None:
            await asyncio.to_thread(until, lambda: tree(mark))
        else:
            await self._until_ended(process)
            process.runs = False

    async def sync(self) -> None:
        done = await self._call(self._pick.choice(OWNERS), "execute_shell", command="echo short")
        assert "short" in done.content[0].text

    async def kill(self) -> None:
        if running := self._running():
            process = self._pick.choice(running)
            await self._call(process.owner, "kill_process", process_id=process.id)
            self._assert_ended(process)

    async def kill_keeper(self) -> None:
        if running := self._running():
            process = self._pick.choice(running)
            os.kill(parent(process.pid), signal.SIGKILL)
            await self._until_ended(process)
            self._assert_ended(process)

    async def kill_warden(self) -> None:
        if running := self._running():
            os.kill(parent(parent(running[0].pid)), signal.SIGKILL)
            for process in running:
                await self._until_ended(process)
                self._assert_ended(process)

    async def restart(self) -> None:
        """With a call that runs and one that waits for approval, or without."""
        door = self._doors[OWNERS[0]]
        calls, mark = [], self._mark()
        owner = self._pick.choice(OWNERS)
        if self._pick.random() < 0.5:
            asked = f"touch asked{next(self._number)}"
            for command in (f"exec sleep {mark}", asked):
                call = self._call(owner, "execute_shell", command=command, timeout=100)
                calls.append(asyncio.ensure_future(call))
            await asyncio.to_thread(until, lambda: tree(mark))
        if self._pick.random() < 0.5:
            door.process.send_signal(signal.SIGKILL)
            await asyncio.to_thread(door.process.wait, 20)
            assert door.process.stderr
            door.process.stderr.close()
        else:
            await asyncio.to_thread(shut, door)
        for call in calls:
            with contextlib.suppress(BaseException):
                await call
        for process in self._running():
            process.runs = process.mode == "background"
        await asyncio.to_thread(
            until, lambda: not any(map(tree, [mark, *(p.mark for p in self._all if not p.runs)]))
        )
        if not self._running():  # then the next server has a session of its own
            self._all.clear()
        await asyncio.to_thread(self.open)

    async def approve(self) -> None:
        """A call of one client waits; the other one's is answered; then a person decides."""
        name, word = f"asked{next(self._number)}", self._pick.choice(("allow", "deny"))
        asks, other = self._pick.sample(OWNERS, 2)
        waits = asyncio.ensure_future(self._call(asks, "execute_shell", command=f"touch {name}"))
        request = await asyncio.to_thread(until, lambda: self._request(f"touch {name}"))
        assert not (await self._call(other, "list_directory")).is_error and not waits.done()
        done = await asyncio.to_thread(self._machine.run, "requests", "answer", request, word)
        assert done.returncode == 0, done.stderr
        assert (await waits).is_error == (word == "deny")
        if word == "allow":
            self._made.add(name)

    def _request(self, command: str) -> str | None:
        """The one about this command; those of killed servers of other sessions stay open."""
        for found in self._machine.json("requests", "list", "--json"):
            request: dict[str, Any] = found["request"]
            if request["input"].get("command") == command:
                return str(request["request_id"])
        return None

    # -- what has to be --------------------------------------------------------------------------

    async def _until_ended(self, process: Known) -> None:
        async with asyncio.timeout(60):
            while (await self._polled(process))["status"] in ("starting", "running"):
                pass

    async def _polled(self, process: Known) -> dict[str, Any]:
        which = {"process_id": process.id, "wait_ms": 200}
        polled = await self._call(process.owner, "poll_process", **which)
        data: dict[str, Any] = polled.meta["tillerman/result"]
        return data

    def _assert_ended(self, process: Known) -> None:
        process.runs = False
        until(lambda: not tree(process.mark), 10)

    async def look(self) -> None:
        """Each client has exactly its own processes, in their state and with their output."""
        for owner in OWNERS:
            async with asyncio.timeout(60), self._client(owner) as made:
                listed: Any = await made.call_tool("list_processes", {})
                rows = listed.meta["tillerman/result"]["processes"]
                found = {one["process_id"]: one for one in rows}
                own = {one.id: one for one in self._all if one.owner == owner}
                assert found.keys() >= own.keys() and not found.keys() & {
                    one.id for one in self._all if one.owner != owner
                }
                for process in own.values():
                    self._assert_as_known(process, found[process.id])
                for process in self._pick.sample(sorted(own), min(3, len(own))):
                    page: Any = await made.call_tool("read_process_output", {"process_id": process})
                    assert page.meta["tillerman/result"]["lines"] == [own[process].word]

    def _assert_as_known(self, process: Known, row: dict[str, Any]) -> None:
        if process.runs:
            assert row["status"] == "running" and tree(process.mark), (process, row)
        elif process.code is None:
            assert row["status"] in ("killed", "lost"), (process, row)
        else:
            assert row["status"] == ("failed" if process.code else "finished"), (process, row)
            assert row["exit_code"] == process.code
        assert names(self._machine.project) == self._made

    async def end(self) -> None:
        """Nothing is left once the server and the lease of its warden have ended."""
        await asyncio.to_thread(shut, self._doors[OWNERS[0]])
        records = self._machine.tillerman / "state" / "spawns"
        gone = lambda: not any(map(tree, self._marks)) and not list(records.glob("*/*"))  # noqa: E731
        await asyncio.to_thread(until, gone, LEFT_WITHIN)


def parent(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("PPid:")))


STEPS = (
    *(History.start, History.start, History.sync, History.sync, History.kill),
    *(History.kill_keeper, History.kill_warden, History.restart, History.approve),
)


@pytest.mark.parametrize(
    ("seed", "length"),
    [(1, 12), *(pytest.param(seed, 30, marks=pytest.mark.torture) for seed in range(2, 12))],
)
async def test_after_any_history_each_client_has_its_processes_and_nothing_is_left(
    machine: Machine, seed: int, length: int
) -> None:
    machine.tillerman.mkdir()
    (machine.tillerman / "config.toml").write_text(RULE)
    history = History(machine, seed)
    history.open()
    pick = random.Random(seed)
    for number in range(length):
        step = pick.choice(STEPS) if number else History.start
        await step(history)
        await history.look()
    await history.end()
