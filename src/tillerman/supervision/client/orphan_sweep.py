"""What earlier wardens could not end: found by their records, proved ours, and killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from tillerman.supervision.linux import process_table
from tillerman.supervision.linux.cgroup import Cgroup
from tillerman.supervision.linux.process_table import ProcessRow
from tillerman.supervision.warden.keeper import END_WITHIN
from tillerman.supervision.warden.records import WardenRecord, load


class SweepResult(NamedTuple):
    """What was left of one warden."""

    marker: str
    killed: tuple[int, ...]
    left: tuple[int, ...]  # would not die: another user's, or stuck in the kernel


def sweep(records: Path) -> list[SweepResult]:
    """End what is left of every warden whose lease is free, and forget it."""
    if not records.is_dir():
        return []
    found = [sweep_one(folder) for folder in sorted(records.iterdir()) if folder.is_dir()]
    return [swept for swept in found if swept]


def sweep_one(folder: Path) -> SweepResult | None:
    """None while somebody else looks after it."""
    lease = WardenRecord.take(str(folder))
    if lease is None:
        return None
    killed: set[int] = set()
    left: set[int] = set()
    boot = process_table.boot_id()
    for path in sorted(folder.iterdir()):
        if not path.name.isdigit():
            continue  # no program's record
        record = load(str(path))
        if record.get("boot") == [[boot]]:
            evidence = OwnershipProof(folder.name, record)
            left |= evidence.end(killed)
    if left:
        os.close(lease.number)
    else:
        lease.remove()
    return SweepResult(folder.name, tuple(sorted(killed - left)), tuple(sorted(left)))


class OwnershipProof:
    """By what a process is known to be of one recorded program's tree.

    A pid alone proves nothing, it may be someone else's by now. Proof is: a recorded pid with its
    start time; its control group; the marker in the environment; one of the program's pipes, which
    nobody else has; or its session, if that has no leader and the environment was cleared.
    """

    def __init__(self, marker: str, record: dict[str, list[list[str]]]) -> None:
        self._marker = marker
        rows = [row for row in record.get("process", []) if len(row) == 2 and row[0].isdigit()]
        self._recorded = {int(pid): start for pid, start in rows}  # a full disk may cut one
        self._pipes = {
            (number > 0, f"pipe:[{inode}]")
            for inodes in record.get("pipes", [])
            for number, inode in enumerate(inodes)
        }
        self._groups = [Cgroup(" ".join(words)) for words in record.get("cgroup", [])]

    def end(self, killed: set[int]) -> set[int]:
        """Kill them all, noting them in `killed`; those that would not die."""

        def look() -> set[int]:
            table = {pid: row for pid, row in process_table.snapshot().items() if not row.dead}
            table.pop(os.getpid(), None)  # run by such a program, we would count as its child
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
    """What it reads as input (False) and writes as output and error (True).

    Which way matters: whoever reads what the program wrote holds the same pipe, and is not of it.
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
