"""Resources of a session: bounded memory on any output, and no leaks or wake-ups."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from bench.memory import LIMIT_MB, LONGEST, Measured, floods, run
from tests import CHECKOUT
from tests.sessions.session_desk import Desk
from tillerman.agents.stdio.line_decoder import MOST_DECODED, decoded_size
from tillerman.core.events import TurnEnded

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
FLOODS = {"unbroken": 50, "lines": 5, "garbage": 3, "json": 50, "stderr": 50}
TURNS = floods(FLOODS | {"lines": 50, "garbage": 50}) | LONGEST | floods(FLOODS)
LONG = (  # the other forms say the same sooner
    "50 MB lines",
    "50 MB garbage",
    "five of them",
    "11 MB with one emoji",
    "11 MB of short words",
)


@pytest.fixture(scope="module")
def idle() -> Measured:
    return run([{"say": "hello"}])


@linux
@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=pytest.mark.torture if one in LONG else ()) for one in TURNS],
)
def test_no_output_costs_more_than_64_mb(name: str, idle: Measured) -> None:
    measured = run(TURNS[name]())
    assert measured.code == 0
    assert measured.peak_mb - idle.peak_mb < LIMIT_MB


@linux
@pytest.mark.timeout(180)
@pytest.mark.parametrize("kind", ["lines", "garbage", "unbroken"])
def test_a_turn_uses_no_more_of_the_disk_than_its_cap(kind: str, idle: Measured) -> None:
    steps = [{"flood": 1, "of": kind} for _ in range(5)]
    limits = {"TILLERMAN_LIMITS_TURN_LOG": "1MB", "TILLERMAN_LIMITS_LINE": "512KB"}
    measured = run([*steps, {"say": "end"}], keep=True, **limits)
    assert measured.disk_mb - idle.disk_mb < 2  # SQLite's own pages and indexes count too
    types = [entry["event"]["type"] for entry in measured.entries]
    assert types[-1] in ("turn_ended", "agent_exited")


def test_commas_inside_a_text_separate_no_values() -> None:
    text = json.dumps({"text": '[1,"\\\\",{}],' * 200_000}).encode()
    values = json.dumps({"values": [[]] * 700_000}, separators=(",", ":")).encode()
    assert len(text) < decoded_size(text) < 2 * len(text)
    assert decoded_size(values) > MOST_DECODED


# -- what stays ------------------------------------------------------------------------------------


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def threads() -> list[str]:
    """Threads, except the pool that asyncio fills to its own bound."""
    names = (thread.name for thread in threading.enumerate())
    return sorted(name for name in names if not name.startswith("asyncio_"))


def watched_folders() -> set[int]:
    """Inodes of all folders that this process watches by inotify, as listed by the kernel."""
    found: set[int] = set()
    for info in list(Path("/proc/self/fdinfo").iterdir()):
        with suppress(FileNotFoundError):  # closed meanwhile
            fields = [line.split() for line in info.read_text().splitlines()]
            found |= {int(line[2].removeprefix("ino:"), 16) for line in fields if "inotify" in line}
    return found


async def until_watched(folder: Path, *, watched: bool = True) -> None:
    """A session's watcher starts some time after the session, and is closed in a thread."""
    for _ in range(2_000):
        if (folder.stat().st_ino in watched_folders()) == watched:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{folder} is {'not' if watched else 'still'} watched")


def children() -> list[str]:
    return Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()


@linux
@pytest.mark.timeout(180)
@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.torture)])
async def test_many_turns_leave_no_descriptor_thread_or_child(desk: Desk, count: int) -> None:
    session = await desk.start()
    await until_watched(desk.project)
    for _ in range(3):  # what is opened once is open from here on
        await session.ask(json.dumps([{"say": "hello"}, {"run": "true"}]))
    before = descriptors(), threads(), children()
    for number in range(count):
        step = {"run": "true"} if number % 10 == 0 else {"say": "hello"}
        await session.prompt(json.dumps([step]))
        await session.idle()
    assert (descriptors(), threads(), children()) == before
    ends = [e for e in desk.sessions.log.since(session.id, limit=10_000) if _completed(e.event)]
    assert len(ends) == count + 3


def _completed(event: object) -> bool:
    return event == TurnEnded(reason="completed")


@linux
@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.torture)])
async def test_sessions_leave_no_descriptor_thread_or_child(desk: Desk, count: int) -> None:
    async def once() -> None:
        session = await desk.start()
        await session.ask(json.dumps([{"say": "hello"}]))
        await session.close()

    await once()
    await until_watched(desk.project, watched=False)
    before = descriptors(), threads(), children()
    for _ in range(count):
        await once()
    await until_watched(desk.project, watched=False)
    assert (descriptors(), threads(), children()) == before


# -- what stirs ------------------------------------------------------------------------------------


def switches(pid: int) -> int:
    """Voluntary context switches of a process with all its threads."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total


@linux
@pytest.mark.timeout(60)
def test_an_owner_with_a_silent_agent_stays_idle(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    script = tmp_path / "script.json"
    script.write_text(json.dumps([[{"say": "hush"}, {"hang": True}]]))
    owner = subprocess.Popen(
        [sys.executable, "-m", "tests.sessions.owner", str(tmp_path), str(script)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    try:
        assert owner.stdout
        while b"hush" not in owner.stdout.readline():
            pass
        time.sleep(1)  # what the start still had to do
        before = switches(owner.pid)
        time.sleep(3)
        assert switches(owner.pid) - before <= 5
    finally:
        owner.kill()
        owner.wait()
