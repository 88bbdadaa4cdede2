"""Every protected name and every trick, by a real shell: restored, also while the command runs."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
from pathlib import Path

import pytest

from tests.workspace.protected_tricks import (
    OTHERS,
    SPECIFIED,
    Case,
    cases,
    guarded,
    without_empty_configs,
)
from tillerman.workspace.protection.watcher import Undone, Watcher

pytestmark = [pytest.mark.torture, pytest.mark.timeout(1800)]


def somebody_elses(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    for name in ("settings.json", "config"):
        (folder / name).write_bytes(b"of somebody else")
    return folder


async def after(case: Case, tmp_path: Path) -> None:
    root, outside = tmp_path / "workspace", somebody_elses(tmp_path)
    case.prepare(root)
    before = guarded(root)
    watch = Watcher(root, tmp_path / "aside")
    try:
        hold = await watch.begin()
        command = case.command(root, outside)
        shell = await asyncio.create_subprocess_exec("sh", "-c", command, cwd=root)
        await shell.wait()
        found = await hold.end()
    finally:
        await watch.close()
    assert without_empty_configs(guarded(root)) == without_empty_configs(before), case
    assert all(one.restored for one in found), case
    check_outside(outside, case)


async def meanwhile(case: Case, tmp_path: Path) -> float:
    """Seconds until all is as before, with the command still running."""
    root, outside = tmp_path / "workspace", somebody_elses(tmp_path)
    case.prepare(root)
    before = guarded(root)
    reported: list[Undone] = []
    watch = Watcher(root, tmp_path / "aside", report=reported.extend)
    command = f"{case.command(root, outside)}; echo; cat"
    try:
        hold = await watch.begin()
        shell = await asyncio.create_subprocess_exec(
            "sh", "-c", command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert shell.stdin and shell.stdout
        await shell.stdout.readline()
        start = time.monotonic()
        while without_empty_configs(guarded(root)) != without_empty_configs(before):
            assert time.monotonic() < start + 10, case
            await asyncio.sleep(0.005)
        took = time.monotonic() - start
        shell.stdin.close()
        await shell.wait()
        await hold.end()
    finally:
        await watch.close()
    assert without_empty_configs(guarded(root)) == without_empty_configs(before), case
    check_outside(outside, case)
    return took


def check_outside(outside: Path, case: Case) -> None:
    held = {path.name: path.read_bytes() for path in outside.iterdir()}
    assert held == dict.fromkeys(("settings.json", "config"), b"of somebody else"), case


async def test_every_trick_on_every_name_is_restored_when_the_command_ends(tmp_path: Path) -> None:
    table = cases((*SPECIFIED, *OTHERS))
    for number, case in enumerate(table):
        folder = tmp_path / str(number)
        folder.mkdir()
        await after(case, folder)
    print(f"{len(table)} commands, all put back")


async def test_every_trick_on_every_specified_name_is_restored_within_a_second(
    tmp_path: Path,
) -> None:
    table = cases(SPECIFIED)
    times: list[float] = []
    for number, case in enumerate(table):
        folder = tmp_path / str(number)
        folder.mkdir()
        times.append(await meanwhile(case, folder))
    times.sort()
    late = times[len(times) * 95 // 100]
    middle = statistics.median(times)
    print(f"{len(times)} commands: {middle:.2f} s, p95 {late:.2f} s, worst {times[-1]:.2f} s")
    assert late < 1.0
