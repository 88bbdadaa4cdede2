"""Resolves paths as the caller of execve does: its root, working directory and links."""

# ruff: noqa: PTH116  # pathlib would cost every start some milliseconds

from __future__ import annotations

import errno
import os
import stat

_MOST_LINKS = 40
_PROC_ROOT = 1  # inode of /proc itself on every procfs
_DELETED = b" (deleted)"


class UnreadableCaller(Exception):
    """This process may not read something that it needs to know about a call."""


class CallerFile:
    """An open path, with the last name of its path and its status."""

    def __init__(self, number: int, name: bytes, status: os.stat_result) -> None:
        self.number = number
        self.name = name
        self.status = status

    @property
    def identity(self) -> tuple[int, int]:
        return self.status.st_dev, self.status.st_ino

    @property
    def version(self) -> tuple[int, ...]:
        """Equal as long as the file is unchanged."""
        status = self.status
        return (*self.identity, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def open(self) -> int:
        """Opens the file. Raises `UnreadableCaller` when this process may not read it."""
        try:
            return os.open(f"/proc/self/fd/{self.number}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise UnreadableCaller(f"its file cannot be read: {error.strerror}") from None


class CallerFiles:
    """Resolves paths for one process; `close` closes everything it opened."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._opened: list[int] = []
        self._root: tuple[int, os.stat_result] | None = None

    def close(self) -> None:
        for number in self._opened:
            os.close(number)
        self._opened.clear()

    def descriptor(self, number: int) -> CallerFile:
        """Returns the file that the caller has open at this descriptor."""
        return self._magic(self._open_start("fd")[0], b"%d" % number)

    def running(self) -> os.stat_result:
        """Returns the status of the program that the caller currently runs."""
        return os.stat(f"/proc/{self._pid}/exe")

    def find(self, path: bytes, directory: str = "cwd") -> CallerFile:
        """Resolves a path; raises OSError as the kernel would.

        `directory`: the entry in the caller's /proc folder where a relative path starts. Links are
        followed here, since the kernel would resolve absolute ones from the root of this process
        instead of the caller's.
        """
        if not path:
            raise _error(errno.ENOENT)
        at, status = self._start() if path.startswith(b"/") else self._open_start(directory)
        name = path
        left = path.split(b"/")[::-1]
        links = 0
        while left:
            part = left.pop()
            if part in (b"", b"."):
                continue
            if part == b"..":
                root = self._start()[1]
                if (status.st_dev, status.st_ino) == (root.st_dev, root.st_ino):
                    continue
            elif part in (b"self", b"thread-self") and status.st_ino == _PROC_ROOT:
                at, status = self._open(f"/proc/{self._pid}")
                continue
            found, status_found = self._open(part, at)
            if not stat.S_ISLNK(status_found.st_mode):
                at, status, name = found, status_found, part
                continue
            links += 1
            if links > _MOST_LINKS:
                raise _error(errno.ELOOP)
            target = os.readlink(b"", dir_fd=found)
            if status_found.st_size != len(target):  # a /proc link: only the kernel can follow it
                file = self._magic(at, part)
                at, status, name = file.number, file.status, file.name
                continue
            if target.startswith(b"/"):
                at, status = self._start()
            left += target.split(b"/")[::-1]
        return CallerFile(at, name.rsplit(b"/", 1)[-1], status)

    def _magic(self, folder: int, name: bytes) -> CallerFile:
        number, status = self._open(name, folder, follow=True)
        target = os.readlink(name, dir_fd=folder)
        return CallerFile(number, target.removesuffix(_DELETED).rsplit(b"/", 1)[-1], status)

    def _start(self) -> tuple[int, os.stat_result]:
        if self._root is None:
            self._root = self._open_start("root")
        return self._root

    def _open_start(self, name: str) -> tuple[int, os.stat_result]:
        return self._open(f"/proc/{self._pid}/{name}", follow=True)

    def _open(
        self, name: bytes | str, folder: int | None = None, *, follow: bool = False
    ) -> tuple[int, os.stat_result]:
        flags = os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
        number = os.open(name, flags, dir_fd=folder)
        self._opened.append(number)
        return number, os.fstat(number)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
