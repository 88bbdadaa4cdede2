"""Files placed in the user's folders are removed, whichever process dies, and no file of the user's
is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tillerman.core.agent import SecretFolder
from tillerman.supervision.client.orphan_sweep import sweep
from tillerman.supervision.client.warden_client import WardenClient

WORDS = b"Speak plainly.\n"
HARNESS = """
import asyncio, sys, time
from pathlib import Path
from tillerman.supervision.client.warden_client import WardenClient

async def main(folder, marker):
    warden = await WardenClient.start(records=folder / "records", marker=marker)
    assert warden.places.put(str(folder / "work" / ".agent" / "AGENTS.md"), b"Speak plainly.\\n")
    print(warden.pid, flush=True)
    time.sleep(60)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


async def test_a_placed_file_exists_until_it_is_removed(warden: WardenClient, work: Path) -> None:
    for _ in range(2):
        assert warden.places.put(str(work / "AGENTS.md"), WORDS)
        assert warden.places.put(str(work / ".agent" / "x.json"), b"")
        assert (work / "AGENTS.md").read_bytes() == WORDS
        assert below(work) == [".agent", ".agent/x.json", "AGENTS.md"]
        warden.places.take_back()
        assert below(work) == []


async def test_the_end_of_the_warden_removes_it(warden: WardenClient, work: Path) -> None:
    warden.places.put(str(work / "AGENTS.md"), WORDS)
    await warden.close()
    assert below(work) == []


async def test_an_existing_file_is_left_as_it_is(warden: WardenClient, work: Path) -> None:
    (work / "AGENTS.md").write_bytes(WORDS)
    (work / "dangling").symlink_to("nowhere")
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    (work / "linked").symlink_to(elsewhere)
    before = below(work)
    for path in ("AGENTS.md", "dangling", "linked/x", "AGENTS.md/x", "no/such/folder"):
        assert not warden.places.put(str(work / path), WORDS)
    warden.places.take_back()
    assert below(work) == before


async def test_a_changed_file_is_left(warden: WardenClient, work: Path) -> None:
    warden.places.put(str(work / ".agent" / "a"), WORDS)
    warden.places.put(str(work / "b"), WORDS)
    warden.places.put(str(work / "c"), WORDS)
    (work / ".agent" / "a").write_bytes(WORDS + b"And more.\n")
    (work / "b").unlink()
    (work / "c").unlink()
    (work / "c").symlink_to("b")
    warden.places.take_back()
    assert below(work) == [".agent", ".agent/a", "c"]


@pytest.mark.parametrize("victims", ["harness", "harness and warden"])
def test_a_killed_harness_leaves_nothing_behind(
    tmp_path: Path, work: Path, marker: str, victims: str
) -> None:
    argv = [sys.executable, "-c", HARNESS, str(tmp_path), marker]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as harness:
        assert harness.stdout
        warden = int(harness.stdout.readline())
        assert below(work) == [".agent", ".agent/AGENTS.md"]
        if "warden" in victims:
            os.kill(warden, signal.SIGKILL)
        harness.kill()
    deadline = time.monotonic() + 10
    while below(work) and time.monotonic() < deadline:
        sweep(tmp_path / "records")  # what the next start does
        time.sleep(0.01)
    assert below(work) == []


async def test_a_secret_folder_is_separate_and_removed_with_the_warden(
    warden: WardenClient, tmp_path: Path
) -> None:
    env = {"PATH": os.environ["PATH"], "CONFIG": SecretFolder("", {"config.json": WORDS})}
    argv = ["sh", "-c", 'cp "$CONFIG/config.json" copy; echo more >"$CONFIG/more"']
    child = await warden.spawn(argv, cwd=tmp_path, env=env)
    assert (await child.wait()).clean
    assert (tmp_path / "copy").read_bytes() == WORDS
    await warden.close()
    assert below(tmp_path) == ["copy", "records"]
