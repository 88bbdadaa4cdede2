"""File locks for workspace paths, shared by all servers of a user.

The holder of a lock may replace a file. There is a fixed number of lock files outside the
workspace, and the kernel releases a lock when its holder is killed. The holder records in the lock
file the temporary name it is about to use, so that the next holder removes what a killed process
left behind.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tillerman.core.permission.protected_names import plain
from tillerman.paths import make_private
from tillerman.workspace.files.refusal import Refused

TEMPORARY = ".tillerman-writes-"  # prefix of every temporary name
SECONDS = 10.0  # timeout for another process
_COUNT = 64
_LONGEST_NOTE = 8_192
_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02


class HeldLock:
    """The lock of one name in one folder."""

    def __init__(self, file: int) -> None:
        self._file = file

    def note(self, folder: int, name: str) -> None:
        """Records a temporary name. Call it before creating that file."""
        status = os.fstat(folder)
        path = os.fsencode(os.readlink(f"/proc/self/fd/{folder}")).hex()  # noqa: PTH115 -- cheap
        os.pwrite(self._file, msgspec.json.encode((path, status.st_dev, status.st_ino, name)), 0)

    def clear(self) -> None:
        """Clears the record. Call it when the temporary file was removed."""
        os.ftruncate(self._file, 0)


class PathLocks:
    """The locks in `folder`, which is private to the user. Also excludes other threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        make_private(folder)
        self._drafts = folder / "drafts"
        self._drafts.mkdir(exist_ok=True, mode=0o700)

    @contextlib.contextmanager
    def hold(self, folder: int, *names: str, seconds: float = SECONDS) -> Iterator[HeldLock]:
        """Locks names of an open folder, by the folder's inode, whatever its path is."""
        with self.hold_all([(folder, name) for name in names], seconds=seconds) as held:
            yield held

    @contextlib.contextmanager
    def hold_all(
        self, places: list[tuple[int, str]], *, seconds: float = SECONDS
    ) -> Iterator[HeldLock]:
        """Locks several names, always in the same order, which prevents deadlocks."""
        until = time.monotonic() + seconds
        with contextlib.ExitStack() as stack:
            files = []
            for number in sorted({_number(folder, name) for folder, name in places}):
                file = self._open(number)
                stack.callback(os.close, file)
                _lock(file, until, places[0][1])
                _recover(file)
                files.append(file)
            yield HeldLock(files[0])

    def open_drafts(self) -> int:
        """Opens the folder for incomplete files. The caller closes it."""
        return os.open(self._drafts, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def recover(self) -> None:
        """Removes what killed processes left behind, unless another process is doing so."""
        for number in range(_COUNT):
            path = self._path(number)
            with contextlib.suppress(OSError):
                if not path.stat().st_size:
                    continue
                file = self._open(number)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _recover(file)
                finally:
                    os.close(file)

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:02x}"

    def _open(self, number: int) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(self._path(number), flags, 0o600)


def _number(folder: int, name: str) -> int:
    """Returns the lock number. Names that some file system treats as equal share a lock."""
    status = os.fstat(folder)
    key = f"{status.st_dev}:{status.st_ino}:{plain(name)}"
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()[0] % _COUNT


def _lock(file: int, until: float, name: str) -> None:
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise Refused(
                    f"{name} is locked by another process that is writing it",
                    hint="try again in a moment",
                ) from None
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        else:
            return


def _recover(file: int) -> None:
    """Removes the temporary file of a holder that was killed."""
    data = os.pread(file, _LONGEST_NOTE, 0)
    if not data:
        return
    with contextlib.suppress(OSError, msgspec.DecodeError, msgspec.ValidationError, ValueError):
        path, device, inode, name = msgspec.json.decode(data, type=tuple[str, int, int, str])
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        folder = os.open(bytes.fromhex(path), flags)
        try:
            status = os.fstat(folder)
            known = (status.st_dev, status.st_ino) == (device, inode)
            if known and name.startswith(TEMPORARY) and "/" not in name:
                os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)
    os.ftruncate(file, 0)
