"""On-disk records of a warden's programs, so that a later start can kill orphans.

One folder per warden, named by its marker. It has `lease`, locked while the warden or a keeper
lives; one file per program, with lines of `key values`; and `places` for temporary files in the
user's folders. No fsync: a power failure ends the processes as well.
"""

# pathlib and contextlib would cost every start some milliseconds
# ruff: noqa: PTH103, PTH106, PTH108, PTH112, PTH116, PTH208

from __future__ import annotations

import errno
import fcntl
import os
import time

from tillerman.supervision.linux import process_table

PLACES = "places"
_MOST_UNUSED = 4


def _make_private(folder: str) -> None:
    """Creates the folder and its missing parents, all of them for the user alone."""
    before = os.umask(0o077)  # a warden has no other threads
    try:
        os.makedirs(folder, exist_ok=True)
    finally:
        os.umask(before)


class WardenRecord:
    """The lock that marks these processes as supervised."""

    def __init__(self, folder: str, number: int) -> None:
        self.folder = folder
        self.number = number

    @classmethod
    def acquire(cls, folder: str) -> WardenRecord | None:
        """Takes the lease. None when another process holds it, or the folder was removed."""
        try:
            number = os.open(f"{folder}/lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # the previous holder may just have removed the folder
            if os.path.samestat(os.fstat(number), os.stat(f"{folder}/lease")):
                return cls(folder, number)
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(number)
        return None

    @classmethod
    def open(cls, folder: str) -> WardenRecord:
        """Opens the lease of a new warden.

        Retries, since a sweep may hold or remove it at that time.
        """
        for _ in range(100):
            _make_private(folder)
            if lease := cls.acquire(folder):
                return lease
            time.sleep(0.01)
        raise OSError(errno.EBUSY, "another warden holds this marker's lease", folder)

    def remove(self) -> None:
        """Removes the folder with all records, the lock last."""
        names = os.listdir(self.folder)
        if PLACES in names:
            from tillerman.supervision.warden.temporary_files import clear

            clear(self.folder)
        for name in names:
            if name != "lease":
                _remove(f"{self.folder}/{name}")
        os.unlink(f"{self.folder}/lease")
        os.rmdir(self.folder)
        os.close(self.number)


def _remove(path: str) -> None:
    if not os.path.isdir(path):
        os.unlink(path)
        return
    import shutil  # imported here: few programs have a folder

    shutil.rmtree(path)


class ProgramRecord:
    """The record file of one program, open for appending."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = f"{folder}/{name}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.number = os.open(self.path, flags, 0o600)

    @classmethod
    def passed_on(cls, path: str, number: int) -> ProgramRecord:
        """Wraps a record that another process opened."""
        record = cls.__new__(cls)
        record.path, record.number = path, number
        return record

    def add(self, key: str, *values: object) -> None:
        self.add_all((key, *values))

    def add_all(self, *lines: tuple[object, ...]) -> None:
        """Adds several lines at once."""
        text = "".join(" ".join(map(str, line)) + "\n" for line in lines)
        line = text.encode(errors="surrogateescape")
        if os.write(self.number, line) < len(line):
            raise OSError(errno.ENOSPC, "a record was cut off", self.path)

    def add_process(self, row: process_table.ProcessRow | None) -> None:
        if row:
            self.add("process", row.pid, row.start)

    def clear(self) -> None:
        """Makes it the record of no program."""
        os.ftruncate(self.number, 0)

    def remove(self) -> None:
        os.close(self.number)
        os.unlink(self.path)


class UnusedRecords:
    """Empty records of ended programs: creating a file takes longer than using one again."""

    def __init__(self) -> None:
        self._unused: list[ProgramRecord] = []

    def pop(self) -> ProgramRecord | None:
        return self._unused.pop() if self._unused else None

    def add(self, record: ProgramRecord) -> None:
        """Takes the record of a program of which no process is left."""
        if len(self._unused) < _MOST_UNUSED:
            record.clear()
            self._unused.append(record)
        else:
            record.remove()


def load(path: str, *, dir_fd: int | None = None) -> dict[str, list[list[str]]]:
    """Reads the lines of a record by key; an incomplete last line is ignored."""
    lines: dict[str, list[list[str]]] = {}
    text = process_table.read(path, dir_fd=dir_fd).decode(errors="surrogateescape")
    for line in text.split("\n")[:-1]:
        key, _, values = line.partition(" ")
        lines.setdefault(key, []).append(values.split(" "))
    return lines
