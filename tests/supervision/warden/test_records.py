"""A record is used again for the next program, and names only that one."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tillerman.supervision.client.child_processes import FileBackedProcess, ProcessEnded
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.warden.records import load


async def run(warden: WardenClient, folder: Path, command: str) -> FileBackedProcess:
    folder.mkdir()
    return await warden.run(
        ["/bin/sh", "-c", command],
        cwd="/",
        env={"PATH": os.defpath},
        name=folder.name,
        folder=folder,
        cap=10_000_000,
    )


async def ended(job: FileBackedProcess) -> ProcessEnded:
    async with asyncio.timeout(20):
        found = await job.wait()
    assert found
    return found


def recorded(warden: WardenClient) -> list[set[int]]:
    """The processes of each record."""
    files = [path for path in warden.folder.iterdir() if path.name.isdigit()]
    return [{int(row[0]) for row in load(str(path)).get("process", [])} for path in files]


async def until_recorded(warden: WardenClient, *expected: set[int]) -> None:
    async with asyncio.timeout(20):
        while sorted(map(sorted, recorded(warden))) != sorted(map(sorted, expected)):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_record_names_only_the_program_that_runs(
    warden: WardenClient, tmp_path: Path
) -> None:
    seen: set[int] = set()
    for number in range(5):
        await ended(await run(warden, tmp_path / f"short{number}", "true"))
        await until_recorded(warden, set())  # one, which is empty
        job = await run(warden, tmp_path / f"long{number}", "exec sleep 60")
        [now] = recorded(warden)
        assert job.pid in now and not now & seen
        seen |= now
        await job.kill()
        await ended(job)


async def test_concurrent_programs_have_a_record_each_and_few_are_left(
    warden: WardenClient, tmp_path: Path
) -> None:
    for turn in ("first", "second"):
        jobs = [await run(warden, tmp_path / f"{turn}{n}", "exec sleep 60") for n in range(8)]
        found = recorded(warden)
        assert sum(len(one) > 0 for one in found) == 8
        for job in jobs:
            assert sum(job.pid in one for one in found) == 1
        for job in jobs:
            await job.kill()
            await ended(job)
        await until_recorded(warden, *[set[int]()] * 4)


async def test_the_exit_file_is_there_from_the_start_and_says_nothing_before_the_end(
    warden: WardenClient, tmp_path: Path
) -> None:
    job = await run(warden, tmp_path / "a", "read line; exit 3")
    assert (tmp_path / "a" / "end").read_bytes() == b"" or (await ended(job)).exit.code == 3
    await ended(job)
    found = ProcessEnded.read(tmp_path / "a")
    assert found and found.exit.code == 3


def test_an_exit_file_that_was_cut_off_counts_as_none(tmp_path: Path) -> None:
    whole = b"status 768\nat 1.000\nsizes 1 2 1 2\nwhy \n"
    for length in range(len(whole)):
        (tmp_path / "end").write_bytes(whole[:length])
        assert ProcessEnded.read(tmp_path) is None, length
    (tmp_path / "end").write_bytes(whole)
    found = ProcessEnded.read(tmp_path)
    assert found and found.exit.code == 3
