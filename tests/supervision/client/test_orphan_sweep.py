"""Sweeping only kills processes proved to be left by a dead warden."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.supervision import kills
from tillerman.supervision.client.orphan_sweep import SweepResult, sweep
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.linux import process_table
from tillerman.supervision.linux.process_table import MARKER
from tillerman.supervision.warden.records import ProgramRecord, WardenRecord

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a process that sleeps, as a child of another program."""
    started: list[subprocess.Popen[bytes]] = []

    def popen(**options: object) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(["/usr/bin/env", "sleep", "60"], **options)  # type: ignore[call-overload]
        started.append(process)
        return process  # type: ignore[no-any-return]

    yield popen
    for process in started:
        process.kill()
        process.wait()


def record(records: Path, marker: str, *, boot: str | None = None) -> ProgramRecord:
    folder = records / marker
    folder.mkdir()
    (folder / "lease").touch()
    made = ProgramRecord(str(folder), "1")
    made.add("boot", boot or process_table.boot_id())
    return made


def ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def test_a_missing_folder_has_nothing_to_sweep(tmp_path: Path) -> None:
    assert sweep(tmp_path / "none") == []


def test_a_recorded_process_is_killed_by_pid_and_start_time(
    tmp_path: Path, marker: str, start: Start
) -> None:
    process = start()
    record(tmp_path, marker).add_process(process_table.find(process.pid))
    assert sweep(tmp_path) == [SweepResult(marker, (process.pid,), ())]
    assert process.wait(5) == -9
    assert list(tmp_path.iterdir()) == []


def test_a_reused_pid_is_left(tmp_path: Path, marker: str, start: Start) -> None:
    process = start()
    record(tmp_path, marker).add("process", process.pid, "12345")
    assert sweep(tmp_path) == [SweepResult(marker, (), ())]
    assert not ended(process)


def test_processes_of_an_earlier_boot_are_ignored(
    tmp_path: Path, marker: str, start: Start
) -> None:
    process = start()
    earlier = record(tmp_path, marker, boot="00000000-0000-0000-0000-000000000000")
    earlier.add_process(process_table.find(process.pid))
    assert sweep(tmp_path) == [SweepResult(marker, (), ())]
    assert (ended(process), list(tmp_path.iterdir())) == (False, [])


def test_strays_are_recognized_by_their_marker_and_no_others(
    tmp_path: Path, marker: str, start: Start
) -> None:
    path = {"PATH": os.environ["PATH"]}
    ours = start(env=path | {MARKER: f"{marker}.1"})
    similar = start(env=path | {MARKER: f"{marker}-too.1"})
    record(tmp_path, marker)
    assert sweep(tmp_path) == [SweepResult(marker, (ours.pid,), ())]
    assert ours.wait(5) == -9
    assert not ended(similar)


def test_strays_are_recognized_by_the_pipes_they_write_to(
    tmp_path: Path, marker: str, start: Start
) -> None:
    reading, writing = os.pipe()
    stray = start(stdout=writing, env={})
    reader = start(stdin=reading, env={})  # holds the other end: a pager of the user's, say
    made = record(tmp_path, marker)
    made.add("pipes", 1, os.fstat(writing).st_ino, 1)
    os.close(reading)
    os.close(writing)
    killed = sweep(tmp_path)
    assert stray.wait(5) == -9
    assert killed == [SweepResult(marker, (stray.pid,), ())]
    assert not ended(reader)


async def test_processes_of_a_living_warden_are_left(tmp_path: Path, marker: str) -> None:
    warden = await WardenClient.start(records=tmp_path, marker=marker)
    child = await warden.spawn(["sleep", "60"], cwd="/", env={"PATH": os.environ["PATH"]})
    assert sweep(tmp_path) == []
    assert Path(f"/proc/{child.pid}").exists()
    assert (tmp_path / marker / "1").exists()
    await warden.close()


def test_a_sweep_spares_itself_and_its_children_inside_a_stray(
    tmp_path: Path, marker: str, start: Start
) -> None:
    record(tmp_path, marker)
    sweeper = (
        "import subprocess, sys; from pathlib import Path\n"
        "from tillerman.supervision.client.orphan_sweep import *\n"
        "child = subprocess.Popen(['sleep', '60'], env={})\n"
        "print(sweep(Path(sys.argv[1])), child.poll())\n"
        "child.kill(); child.wait()"
    )
    ran = subprocess.run(
        [sys.executable, "-c", sweeper, tmp_path],
        env={MARKER: f"{marker}.1", "PATH": os.environ["PATH"], "PYTHONPATH": str(kills.SOURCE)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == f"[{SweepResult(marker, (), ())}] None\n"


def test_an_unfinished_record_is_read_as_far_as_possible(tmp_path: Path, marker: str) -> None:
    made = record(tmp_path, marker)
    os.write(made.number, b"process 1")
    assert sweep(tmp_path) == [SweepResult(marker, (), ())]
    assert list(tmp_path.iterdir()) == []


def test_two_sweeps_at_once_share_the_work(tmp_path: Path, marker: str) -> None:
    record(tmp_path, marker)
    held = WardenRecord.acquire(str(tmp_path / marker))
    assert held is not None
    assert sweep(tmp_path) == []
    held.remove()
    assert sweep(tmp_path) == []
