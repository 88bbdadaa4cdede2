"""Finds and kills orphaned processes that earlier wardens could not end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import NamedTuple

from tillerman.supervision.client.child_processes import GONE_WITHIN
from tillerman.supervision.linux import process_table
from tillerman.supervision.linux.cgroup import Cgroup
from tillerman.supervision.linux.process_table import ProcessRow
from tillerman.supervision.warden.process_tree import END_WITHIN
from tillerman.supervision.warden.records import WardenRecord, load


class SweepResult(NamedTuple):
    """Processes left over by one warden."""

    marker: str
    killed: tuple[int, ...]
    left: tuple[int, ...]  # could not be killed: owned by another user, or stuck in the kernel


def sweep(records: Path) -> list[SweepResult]:
    """Kills what is left of every warden whose lease is free, and removes its record."""
    if not records.is_dir():
        return []
    found = [sweep_one(folder) for folder in sorted(records.iterdir()) if folder.is_dir()]
    return [result for result in found if result]


def sweep_one(folder: Path) -> SweepResult | None:
    """Sweeps one warden's record. Returns None while another process holds its lease."""
    lease = WardenRecord.acquire(str(folder))
    if lease is None:
        return None
    killed: set[int] = set()
    left: set[int] = set()
    boot = process_table.boot_id()
    for path in sorted(folder.iterdir()):
        if not path.name.isdigit():
            continue  # not a program record
        record = load(str(path))
        if record.get("boot") == [[boot]]:
            evidence = OwnershipProof(folder.name, record)
            left |= evidence.end(killed)
    if left:
        os.close(lease.number)
    else:
        lease.remove()
    return SweepResult(folder.name, tuple(sorted(killed - left)), tuple(sorted(left)))


async def sweep_when_free(folder: Path) -> SweepResult | None:
    """Sweeps a dead warden once its keepers have ended their trees; returns the result."""
    deadline = asyncio.get_running_loop().time() + GONE_WITHIN
    while folder.exists() and asyncio.get_running_loop().time() < deadline:
        if found := await asyncio.to_thread(sweep_one, folder):
            return found
        await asyncio.sleep(0.01)  # a keeper is still working
    return None


class OwnershipProof:
    """Decides whether a process belongs to the tree of one recorded program.

    A pid alone is no proof, since it may have been reused. Accepted as proof: a recorded pid with
    its start time; the control group; the marker in the environment; one of the program's pipes,
    which no unrelated process has; or the session id, if the session has no leader and the
    environment was cleared.
    """

    def __init__(self, marker: str, record: dict[str, list[list[str]]]) -> None:
        self._marker = marker
        rows = [row for row in record.get("process", []) if len(row) == 2 and row[0].isdigit()]
        self._recorded = {int(pid): start for pid, start in rows}  # a full disk may truncate a row
        self._pipes = {
            (number > 0, f"pipe:[{inode}]")
            for inodes in record.get("pipes", [])
            for number, inode in enumerate(inodes)
        }
        self._groups = [Cgroup(" ".join(words)) for words in record.get("cgroup", [])]

    def end(self, killed: set[int]) -> set[int]:
        """Kills all processes found and adds them to `killed`; returns those that survive."""

        def look() -> set[int]:
            table = {pid: row for pid, row in process_table.snapshot().items() if not row.dead}
            table.pop(os.getpid(), None)  # if such a program runs us, we would count as its child
            found = self._find(table)
            killed.update(found)
            return found

        look()
        for group in self._groups:
            group.kill(END_WITHIN)
        left = process_table.end(look, END_WITHIN)
        if not left:
            for group in self._groups:
                group.remove()
        return left

    def _find(self, table: dict[int, ProcessRow]) -> set[int]:
        proved = {pid for pid, row in table.items() if self._recorded.get(pid) == row.start}
        proved |= process_table.carriers(self._marker, table)
        proved |= {pid for group in self._groups for pid in group.members()}
        proved |= {pid for pid, row in table.items() if self._is_stray(row, table)}
        return proved | process_table.descendants(proved, table)

    def _is_stray(self, row: ProcessRow, table: dict[int, ProcessRow]) -> bool:
        if not process_table.LINUX:
            return False
        if self._pipes.intersection(_standard_files(row.pid)):
            return True
        leaderless = row.session in self._recorded and row.session not in table
        return leaderless and row.session > 1 and not process_table.environment(row.pid)


def _standard_files(pid: int) -> set[tuple[bool, str]]:
    """Returns the files of stdin (False), and of stdout and stderr (True).

    The direction matters: a process that reads the program's output holds the same pipe, but does
    not belong to the program.
    """
    files = set()
    for number, way in ((0, 0o400), (1, 0o200), (2, 0o200)):
        file = Path(f"/proc/{pid}/fd/{number}")
        try:
            if file.lstat().st_mode & way:
                files.add((number > 0, str(file.readlink())))
        except OSError:
            continue
    return files
