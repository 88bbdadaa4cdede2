"""A session on a volume that becomes full: the agent is paused with a notice, and resumes by
itself."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tests.sessions.session_desk import Desk
from tillerman.core.events import Entry, MessageChunk, Notice, TurnEnded
from tillerman.sessions.agent.host import SpillFile
from tillerman.sessions.log.size_limits import DiskBudget
from tillerman.sessions.run_settings import TurnLimits
from tillerman.sessions.session import Session, read_all
from tillerman.supervision.secrets import Secrets

needs_root = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="mounting a small volume needs root"
)

MAX_WAIT = 30.0
SILENCE = 1.5
MB = 1024 * 1024
LINES = 200


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """The home of a desk, with room for a reserve and little more until the ballast is removed."""
    folder = tmp_path / "home"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mount is not allowed here")
    (folder / "ballast").write_bytes(bytes(46 * MB))
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
async def desk(volume: Path, tmp_path: Path) -> AsyncIterator[Desk]:
    (tmp_path / "project").mkdir()
    desk = Desk(tmp_path)
    yield desk
    (volume / "ballast").unlink(missing_ok=True)  # or closing waits for space
    await desk.close()


class Talk:
    """A turn of many long lines, and the progress that the agent recorded."""

    def __init__(self, desk: Desk) -> None:
        chance = random.Random(5)
        self.texts = [f"{number}:{chance.randbytes(50_000).hex()}" for number in range(LINES)]
        self._marks = desk.project / "marks"
        steps: list[dict[str, object]] = []
        for number, text in enumerate(self.texts):
            steps.append({"send": {"type": "text", "id": f"m{number}", "text": text}})
            steps.append({"write": str(self._marks), "text": str(number)})
        script = desk.folder / "script.json"
        script.write_text(json.dumps([steps]))
        self.script = str(script)

    def progress(self) -> int:
        return int(self._marks.read_text() or 0) if self._marks.exists() else 0


async def collect(session: Session, seen: list[Entry]) -> None:
    async for page in session.pages_until_idle():
        seen += page


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(MAX_WAIT):
        while not condition():  # noqa: ASYNC110 - the store's thread has no event for us
            await asyncio.sleep(0.02)


async def at_rest(count: Callable[[], int]) -> int:
    """Its count, once it has not changed for longer than a pause of the agent."""
    async with asyncio.timeout(MAX_WAIT):
        while True:
            before = count()
            await asyncio.sleep(SILENCE + 0.5)
            if count() == before:
                return before


def storage_notices(entries: list[Entry]) -> list[str]:
    return [
        entry.event.level
        for entry in entries
        if isinstance(entry.event, Notice) and entry.event.kind == "storage"
    ]


def read_elsewhere(desk: Desk, session: str) -> int:
    """The number of the last entry that another process reads."""
    program = (
        "import sys; from pathlib import Path\n"
        "from tillerman.sessions.session import read_all\n"
        "from tillerman.store.database import Database\n"
        "from tillerman.store.event_log import EventLog\n"
        "log = EventLog(Database.open(Path(sys.argv[1]), read_only=True))\n"
        "*_, last = read_all(log, sys.argv[2])\n"
        "print(last.seq)\n"
    )
    words = [sys.executable, "-c", program, str(desk.paths.store), session]
    done = subprocess.run(words, capture_output=True, text=True, timeout=MAX_WAIT, check=True)
    return int(done.stdout)


@needs_root
@pytest.mark.timeout(120)
async def test_a_full_disk_pauses_the_agent_with_a_notice_and_it_resumes_by_itself(
    desk: Desk, volume: Path
) -> None:
    talk = Talk(desk)
    seen: list[Entry] = []
    session = await desk.start(limits=TurnLimits(idle=SILENCE))
    await session.prompt(talk.script)
    reading = asyncio.create_task(collect(session, seen))

    await until(lambda: desk.database.storage == "full")
    await until(lambda: storage_notices(seen) == ["error"])
    assert await at_rest(talk.progress) < LINES - 1
    printed = list(seen)
    assert not any(isinstance(entry.event, TurnEnded) for entry in printed)
    elsewhere = await asyncio.to_thread(read_elsewhere, desk, session.id)
    assert elsewhere >= printed[-1].seq
    assert storage_notices(seen) == ["error"]

    (volume / "ballast").unlink()
    async with asyncio.timeout(MAX_WAIT):
        await reading
    assert talk.progress() == LINES - 1
    assert seen[: len(printed)] == printed
    assert seen == list(read_all(desk.sessions.log, session.id))
    assert [e.event.text for e in seen if isinstance(e.event, MessageChunk)] == talk.texts
    assert [e.event for e in seen if isinstance(e.event, TurnEnded)] == [
        TurnEnded(reason="completed")
    ]
    assert storage_notices(seen) == ["error", "info"]


def test_a_spill_on_a_full_disk_is_cut_and_raises_nothing() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    spill = SpillFile("00001", full, 10 * MB, Secrets(), DiskBudget(10 * MB))
    for _ in range(3):
        spill.write(bytes(MB))
    assert spill.close() == "00001"
