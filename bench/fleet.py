"""50 concurrent agents with 200 events per second each: losses, CPU per event, and latency.

python -m bench.fleet [AGENTS [A_SECOND [SECONDS]]]
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import quantiles
from typing import Any, NamedTuple

import msgspec

from bench.realtime import first_in_line
from tillerman.agents import load
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Prompt, SessionSpec
from tillerman.core.events import AgentReady, MessageChunk
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Launch
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.sessions.session import Session, read_all
from tillerman.store.database import Database

CHILD = Path(__file__).with_name("fleet_child.py")


class Fleet(NamedTuple):
    agents: int = 50
    rate: int = 200  # events per second and agent
    seconds: int = 10

    @property
    def each(self) -> int:
        return self.rate * self.seconds

    @property
    def events(self) -> int:
        return self.agents * self.each


class Cost(NamedTuple):
    cpu: float  # CPU seconds of this process, for all events
    took: float  # wall-clock seconds
    events: int


class Gate:
    """Holds the programs until all of them are ready, then starts the clock."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        path = folder / "gate"
        self.events = fleet.events
        self.command = [
            *(sys.executable, "-I", "-S", str(CHILD)),
            *(str(path), str(fleet.each), str(fleet.rate)),
        ]
        self._file = path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def open(self) -> None:
        self._cpu, self._clock = time.process_time(), time.perf_counter()
        self._file.close()

    def cost(self) -> Cost:
        cpu, took = time.process_time() - self._cpu, time.perf_counter() - self._clock
        return Cost(cpu, took, self.events)


class FleetWire(MockWire):
    """The mock's wire with a program that only prints the time."""

    command: list[str]

    def launch(self, spec: SessionSpec, prompt: Prompt | None) -> Launch:
        return Launch(self.command)


async def through_sessions(fleet: Fleet, folder: Path) -> tuple[Cost, list[int]]:
    """From the pipes to the durable log and to a subscriber of each session.

    Also returns the nanoseconds from just before each write until its subscriber received it.
    """
    gate = Gate(fleet, folder)
    FleetWire.command = gate.command
    agent = StdioAgent(load("mock").info, FleetWire)
    home, project = folder / "home", folder / "project"
    project.mkdir()
    paths = find_paths({"TILLERMAN_HOME": str(home)})
    database = Database.open(paths.store)
    sessions = Sessions(paths, database)
    run_settings = RunSettings(approve="none", environment={"PATH": os.defpath, "HOME": str(home)})
    spec = session_spec(cwd=project)
    running = [await sessions.start(agent, spec, run_settings) for _ in range(fleet.agents)]
    for session in running:
        await session.prompt("go")
        await _until_settled(session)
    late: list[int] = []
    all_told = asyncio.Event()

    async def follow(session: Session) -> None:
        async for page in session.pages_until_idle(session.last_seq):
            now = time.monotonic_ns()
            late.extend(
                now - int(entry.event.text)
                for entry in page
                if isinstance(entry.event, MessageChunk)
            )
            if len(late) == fleet.events:
                all_told.set()

    followers = [asyncio.create_task(follow(session)) for session in running]
    gate.open()
    await all_told.wait()
    cost = gate.cost()
    await asyncio.gather(*followers)
    for session in running:
        stored = (entry.event for entry in read_all(sessions.log, session.id))
        kept = sum(isinstance(event, MessageChunk) for event in stored)
        assert kept == fleet.each, f"{session.id} kept {kept} events of {fleet.each}"
    await sessions.close()
    database.close()
    return cost, late


async def _until_settled(session: Session) -> None:
    """Waits until its agent is ready and has the prompt."""
    async for entry in session.entries():
        if isinstance(entry.event, AgentReady):
            return


async def bare(fleet: Fleet, folder: Path) -> Cost:
    """The same programs, with a loop that decodes their lines and discards them."""
    loop = asyncio.get_running_loop()
    gate = Gate(fleet, folder)
    pipe = subprocess.PIPE
    children = [
        subprocess.Popen(gate.command, stdin=pipe, stdout=pipe)  # noqa: ASYNC220
        for _ in range(fleet.agents)
    ]
    heard, over = 0, loop.create_future()

    def readable(number: int) -> None:
        nonlocal heard
        for line in os.read(number, 1 << 18).splitlines():
            heard += msgspec.json.decode(line)["type"] == "text"
        if heard == fleet.events and not over.done():
            over.set_result(None)

    for child in children:
        assert child.stdin and child.stdout
        child.stdin.write(b"go\n")
        child.stdin.flush()
        child.stdout.readline()  # the ready message
        loop.add_reader(child.stdout.fileno(), readable, child.stdout.fileno())
    gate.open()
    await over
    cost = gate.cost()
    for child in children:
        assert child.stdout
        loop.remove_reader(child.stdout.fileno())
        child.communicate()
    return cost


def in_memory(events: int, decode: Callable[[bytes], Any]) -> Cost:
    """Decodes lines as the programs write them, one after the other."""
    line = b'{"type":"text","id":"m1.1","text":"%d "}'
    lines = [line % (time.monotonic_ns() + number) for number in range(events)]
    cpu, begin = time.process_time(), time.perf_counter()
    for line in lines:
        decode(line)
    return Cost(time.process_time() - cpu, time.perf_counter() - begin, events)


def main(words: Sequence[str] = ()) -> None:
    fleet = Fleet(*map(int, words))
    with tempfile.TemporaryDirectory() as name, first_in_line() as where:
        whole, late = asyncio.run(through_sessions(fleet, Path(name)))
        loop = asyncio.run(bare(fleet, Path(name)))
        wire = MockWire(session_spec(cwd=Path(name)))
        raw = min(in_memory(fleet.events, msgspec.json.decode) for _ in range(3))
        events = min(in_memory(fleet.events, lambda line: [*wire.decode(line)]) for _ in range(3))
    assert len(late) == whole.events, f"{len(late)} events of {whole.events} were told"
    percent = [nanoseconds / 1e6 for nanoseconds in quantiles(late, n=100)]
    said = f"{fleet.agents} x {fleet.rate} events/s for {fleet.seconds} s"
    print(f"{said}: {whole.events:,} kept and told in {whole.took:.1f} s, none lost")
    print(where)
    for title, cost, goal in (
        ("msgspec decode, in memory", raw, ""),
        ("the mock's wire, in memory", events, ""),
        ("pipes, decode, and no more", loop, ""),
        ("pipes to log and readers", whole, " (goal 5.0)"),
    ):
        each = cost.cpu / cost.events
        print(
            f"{title:<28}{each * 1e6:>8.1f} us CPU/event"
            f"{each * raw.events / raw.cpu:>8.1f} x msgspec decode"
            f"{each * loop.events / loop.cpu:>6.1f} x decode from pipes{goal}"
        )
    print(f"from pipe to subscriber: p50 {percent[49]:.1f} ms, p99 {percent[98]:.1f} ms")


if __name__ == "__main__":
    main(sys.argv[1:])
