"""Short programs that hang, print too much or leave others running."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tillerman.workspace.git.bounded_command import (
    CommandMissing,
    CommandOutput,
    CommandTimeout,
    query,
)

ENV = {"PATH": os.environ["PATH"]}


async def sh(script: str, cwd: Path, **limits: float) -> CommandOutput:
    seconds, most = limits.get("seconds", 20), int(limits.get("most", 1 << 20))
    return await query(("sh", "-c", script), cwd=cwd, env=ENV, seconds=seconds, most=most)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_its_output_and_exit_are_reported(tmp_path: Path) -> None:
    assert await sh("echo out; echo no >&2; echo why >&2; exit 3", tmp_path) == CommandOutput(
        3, b"out\n", b"no\nwhy\n"
    )
    assert (await sh("echo no >&2; echo why >&2; exit 3", tmp_path)).complaint == "why"
    assert (await sh("exit 3", tmp_path)).complaint == "it exited with 3"


async def test_it_gets_no_input_and_only_the_given_variables(tmp_path: Path) -> None:
    assert (await sh("cat; echo [$HOME]", tmp_path)).out == b"[]\n"


async def test_a_flood_is_cut_and_ended(tmp_path: Path) -> None:
    reported = await sh("yes", tmp_path, most=100_000)
    assert (len(reported.out), reported.cut) == (100_000, True)


async def test_a_flood_of_errors_keeps_their_end(tmp_path: Path) -> None:
    reported = await sh("yes | head -c 1000000 >&2; echo end >&2", tmp_path)
    assert reported.err.endswith(b"y\nend\n")
    assert len(reported.err) <= 16 << 10


async def test_its_children_are_killed_with_it(tmp_path: Path) -> None:
    reported = await sh("sleep 60 >/dev/null 2>&1 & echo $!", tmp_path)
    async with asyncio.timeout(5):
        while not gone(int(reported.out)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_process_that_holds_its_pipes_elsewhere_does_not_block_us(tmp_path: Path) -> None:
    script = "echo said; setsid sleep 30 & echo $! > pid; exit 0"
    async with asyncio.timeout(15):
        assert await sh(script, tmp_path) == CommandOutput(0, b"said\n")
    os.kill(int((tmp_path / "pid").read_text()), 9)


async def test_a_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with pytest.raises(CommandTimeout, match="sh took longer than"):
        await sh("trap '' TERM; echo $$ > pid; sleep 60; sleep 60", tmp_path, seconds=0.3)
    assert gone(int((tmp_path / "pid").read_text()))


async def test_a_cancelled_caller_kills_it(tmp_path: Path) -> None:
    task = asyncio.ensure_future(sh("echo $$ > pid.new; mv pid.new pid; sleep 60", tmp_path))
    async with asyncio.timeout(5):
        while not (tmp_path / "pid").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gone(int((tmp_path / "pid").read_text()))


async def test_a_caller_cancelled_at_once_leaves_nothing(tmp_path: Path) -> None:
    task = asyncio.ensure_future(sh("echo $$ > pid; sleep 60", tmp_path))
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(5):
        with pytest.raises(asyncio.CancelledError):
            await task
    if (tmp_path / "pid").exists():
        assert gone(int((tmp_path / "pid").read_text()))


async def test_a_missing_command_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CommandMissing, match="nowhere cannot be started"):
        await query(("nowhere",), cwd=tmp_path, env=ENV, seconds=1)
