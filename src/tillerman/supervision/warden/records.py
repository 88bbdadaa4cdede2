"""What a warden leaves on disk about its programs, so that a later start can end what is left.

A folder per warden, named by its marker: `lease`, locked while the warden or a keeper lives, one
file per program, lines of `key values`, and `places` for what was put where the user works. No
fsync: a power cut ends the processes as well.
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


class WardenRecord:
    """The lock that says: somebody still looks after these processes."""

    def __init__(self, folder: str, number: int) -> None:
        self.folder = folder
        self.number = number

    @classmethod
    def take(cls, folder: str) -> WardenRecord | None:
        """None when another holds it, or the folder went away."""
        try:
            number = os.open(f"{folder}/lease", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # whoever held it may just have removed the folder
            if os.path.samestat(os.fstat(number), os.stat(f"{folder}/lease")):
                return cls(folder, number)
        except (BlockingIOError, FileNotFoundError):
            pass
        os.close(number)
        return None

    @classmethod
    def open(cls, folder: str) -> WardenRecord:
        """A new warden's own. Tried again, since a sweep may hold it, or remove it, this moment."""
        for _ in range(100):
            os.makedirs(folder, 0o700, exist_ok=True)
            if lease := cls.take(folder):
                return lease
            time.sleep(0.01)
        raise OSError(errno.EBUSY, "another warden holds this marker's lease", folder)

    def remove(self) -> None:
        """The folder with all records, the lock last."""
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
    import shutil  # few programs have a folder here

    shutil.rmtree(path)


class ProgramRecord:
    """One program's file, open for adding lines."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = f"{folder}/{name}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
        self.number = os.open(self.path, flags, 0o600)

    @classmethod
    def passed_on(cls, path: str, number: int) -> ProgramRecord:
        """One that another process opened."""
        record = cls.__new__(cls)
        record.path, record.number = path, number
        return record

    def add(self, key: str, *values: object) -> None:
        line = " ".join((key, *map(str, values))).encode(errors="surrogateescape") + b"\n"
        if os.write(self.number, line) < len(line):
            raise OSError(errno.ENOSPC, "a record was cut off", self.path)

    def add_process(self, row: process_table.ProcessRow | None) -> None:
        if row:
            self.add("process", row.pid, row.start)

    def remove(self) -> None:
        os.close(self.number)
        os.unlink(self.path)


def load(path: str, *, dir_fd: int | None = None) -> dict[str, list[list[str]]]:
    """The lines of a record by key; an unfinished last line is not there yet."""
    lines: dict[str, list[list[str]]] = {}
    text = process_table.read(path, dir_fd=dir_fd).decode(errors="surrogateescape")
    for line in text.split("\n")[:-1]:
        key, _, values = line.partition(" ")
        lines.setdefault(key, []).append(values.split(" "))
    return lines
