"""Notifies watchers of all sessions about sessions that start, or change without an owner.

Each watcher has a named pipe in one folder; a notifier writes the session's id into all of them.
There is no polling, and without watchers a notification costs one directory listing.
"""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType

from tillerman.paths import private_folder

_LONGEST = 256  # bytes of an id; small enough for an atomic write to a pipe
_FULL = 4096  # bytes: the minimum capacity of a pipe


def notify(folder: Path, session: str) -> None:
    try:
        pipes = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for pipe in pipes:
        _write(Path(pipe.path), session.encode()[:_LONGEST] + b"\n")


def _write(path: Path, line: bytes) -> None:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:  # no reader: its owner died
            path.unlink(missing_ok=True)
        return
    try:
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.write(fd, line)
    except (BlockingIOError, BrokenPipeError):
        pass  # a watcher that far behind rescans all: see `SessionNotifications`
    finally:
        os.close(fd)


class SessionNotifications:
    """A named pipe; iterating yields ids of changed sessions, or None to rescan all sessions."""

    def __init__(self, folder: Path) -> None:
        self._path = private_folder(folder) / f"{os.getpid()}-{id(self):x}"
        os.mkfifo(self._path, 0o600)
        # for writing too: then it never reaches the end when writers close it
        self._fd = os.open(self._path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._rest = b""
        self._updates: deque[str | None] = deque()
        self._arrived = asyncio.Event()

    def __enter__(self) -> SessionNotifications:
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._path.unlink(missing_ok=True)

    async def __aiter__(self) -> AsyncIterator[str | None]:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._updates:
                yield self._updates.popleft()

    def _read(self) -> None:
        data = os.read(self._fd, _FULL)
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._updates.extend(line.decode("ascii", "replace") for line in lines)
        if len(data) == _FULL:
            self._updates.append(None)  # some notifications may have been lost
        self._arrived.set()
