"""The keeper that is started before it is needed."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest

from tillerman.supervision.client.child_processes import FileBackedProcess, ProcessEnded
from tillerman.supervision.client.supervision_levels import Level
from tillerman.supervision.client.warden_client import WardenClient

Run = Callable[..., Awaitable[FileBackedProcess]]


@pytest.fixture
async def warden(level: Level, tmp_path: Path, marker: str) -> AsyncIterator[WardenClient]:
    started = await WardenClient.start(
        level=level, records=tmp_path / "records", marker=marker, linger=5
    )
    yield started
    await started.close()


# With limits for the command alone, its process is forked early too; else it is spawned later.
_THREADS_OWN = 0b11 << 31  # signals of the C library, which ignores them in what it spawns


def _without_threads_own(ignored: re.Match[str]) -> str:
    return f"SigIgn:\t{int(ignored[1], 16) & ~_THREADS_OWN:016x}"


LIMITED = (((resource.RLIMIT_FSIZE, 1 << 30),), None, None, None, ())


@pytest.fixture(params=[True, False], ids=["forked", "spawned"])
def forked(request: pytest.FixtureRequest, level: Level) -> bool:
    return bool(request.param) or level != Level.NAMESPACE


@pytest.fixture
def run(forked: bool) -> Run:
    return partial(_run, rules=LIMITED if forked else None)


async def _run(
    warden: WardenClient,
    folder: Path,
    command: str,
    stdin: bytes | None = None,
    *,
    rules: object,
) -> FileBackedProcess:
    folder.mkdir()
    return await warden.run(
        ["/bin/sh", "-c", command],
        cwd="/",
        env={"PATH": os.defpath},
        name=folder.name,
        folder=folder,
        cap=10_000_000,
        stdin=stdin,
        rules=rules,
    )


async def ended(job: FileBackedProcess) -> ProcessEnded:
    async with asyncio.timeout(20):
        found = await job.wait()
    assert found
    return found


async def spare_of(warden: WardenClient, forked: bool) -> tuple[int, ...]:
    """The keeper, and the waiting process if there is one, once no other process is left."""

    def alone() -> bool:
        keepers = children(warden.pid)
        if len(keepers) != 1 or len(children(keepers[0])) != forked:
            return False
        time.sleep(0.2)  # it may be the ending keeper of the last command
        return children(warden.pid) == keepers

    await until(alone)
    (keeper,) = children(warden.pid)
    return keeper, *children(keeper)


def children(pid: int) -> list[int]:
    try:
        return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return []


async def until(condition: Callable[[], bool]) -> None:
    def wait() -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    await asyncio.to_thread(wait)


async def until_gone(*pids: int) -> None:
    await until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


async def test_the_second_command_is_run_by_the_spare(
    warden: WardenClient, tmp_path: Path, run: Run, forked: bool
) -> None:
    await ended(await run(warden, tmp_path / "a", "true"))
    spare, *waits = await spare_of(warden, forked)
    job = await run(warden, tmp_path / "b", "echo $PPID; pwd; sleep 60")
    assert children(spare) == [job.pid]
    assert waits in ([], [job.pid])
    await job.kill()
    await until_gone(spare, job.pid)


async def test_a_killed_spare_is_replaced(
    warden: WardenClient, tmp_path: Path, run: Run, forked: bool
) -> None:
    await ended(await run(warden, tmp_path / "a", "true"))
    spare = await spare_of(warden, forked)
    os.kill(spare[0], signal.SIGKILL)
    await until_gone(*spare)
    assert (await ended(await run(warden, tmp_path / "b", "echo on"))).exit.clean
    assert await spare_of(warden, forked) != spare


async def test_a_killed_waiting_process_fails_the_command_with_a_message(
    warden: WardenClient, tmp_path: Path, run: Run, forked: bool
) -> None:
    await ended(await run(warden, tmp_path / "a", "true"))
    if not forked:
        pytest.skip("no process waits")
    _, waits = await spare_of(warden, forked)
    os.kill(waits, signal.SIGKILL)
    with pytest.raises(OSError, match="ended before it could run"):
        await run(warden, tmp_path / "b", "true")
    assert (await ended(await run(warden, tmp_path / "c", "exit 3"))).exit.code == 3


async def test_a_command_too_large_for_one_message_runs_all_the_same(
    warden: WardenClient, tmp_path: Path, run: Run, forked: bool
) -> None:
    await ended(await run(warden, tmp_path / "a", "true"))
    await spare_of(warden, forked)
    job = await run(warden, tmp_path / "b", "wc -c", stdin=b"x" * 900_000)
    assert (await ended(job)).exit.clean
    assert (tmp_path / "b/stdout").read_text().strip() == "900000"


async def test_a_command_that_cannot_run_fails_the_same_way(
    warden: WardenClient, tmp_path: Path, run: Run, forked: bool
) -> None:
    await ended(await run(warden, tmp_path / "a", "true"))
    await spare_of(warden, forked)
    (tmp_path / "b").mkdir()
    with pytest.raises(FileNotFoundError):
        await warden.run(
            ["/nowhere/program"], cwd="/", env={}, name="b", folder=tmp_path / "b", cap=1
        )


async def test_the_spare_goes_with_its_warden(
    warden: WardenClient, tmp_path: Path, run: Run, forked: bool
) -> None:
    await ended(await run(warden, tmp_path / "a", "true"))
    spare = await spare_of(warden, forked)
    os.kill(warden.pid, signal.SIGKILL)
    await until_gone(*spare)


async def test_concurrent_commands_each_have_a_keeper(
    warden: WardenClient, tmp_path: Path, run: Run, forked: bool
) -> None:
    await ended(await run(warden, tmp_path / "a", "true"))
    await spare_of(warden, forked)
    jobs = await asyncio.gather(
        *(run(warden, tmp_path / f"b{number}", f"exit {number}") for number in range(8))
    )
    ends = await asyncio.gather(*map(ended, jobs))
    assert [end.exit.code for end in ends] == list(range(8))


async def test_a_spawned_command_starts_like_a_forked_one(
    warden: WardenClient, tmp_path: Path
) -> None:
    """The same session, signals, limits, open files and folder, whichever way it was started."""
    shows = (
        "set -- $(cat /proc/$$/stat); [ $6 = $$ ] && echo leads its session; ls /proc/$$/fd; pwd;"
        " grep -E '^(Sig[IC]|Cap)' /proc/$$/status; grep SigBlk /proc/self/status; "
        " readlink /proc/$$/fd/0 /proc/$$/cwd; ulimit -c; env | sort | grep -v MARKER"
    )
    outputs = []
    for name, rules in (("forked-late", None), ("a", None), ("b", LIMITED), ("c", LIMITED)):
        job = await _run(warden, tmp_path / name, shows, rules=rules)
        assert (await ended(job)).exit.clean
        await until(lambda: len(children(warden.pid)) == 1)
        text = (tmp_path / name / "stdout").read_text()
        outputs.append(re.sub(r"SigIgn:\t(\w+)", _without_threads_own, text))
    assert "leads its session" in outputs[0]
    assert outputs == [outputs[0]] * 4
