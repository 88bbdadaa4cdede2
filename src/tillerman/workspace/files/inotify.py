"""Inotify: waits for file and folder events without a thread and without polling."""

from __future__ import annotations

import asyncio
import ctypes
import os
import select
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
OVERFLOW, IGNORED = 0x4000, 0x8000
IS_FOLDER = 0x4000_0000  # the event is about a folder

NAMES = CREATE | DELETE | MOVED_FROM | MOVED_TO | DELETE_SELF | MOVE_SELF  # of a folder
CONTENT = MODIFY | ATTRIB | CLOSE_WRITE | DELETE_SELF | MOVE_SELF  # of a file

_EVENT = struct.Struct("iIII")
_READ = 64 << 10
_MOST = 20_000  # the kernel queues no more
_libc = ctypes.CDLL(None, use_errno=True)


class InotifyEvent(NamedTuple):
    watch: int  # as returned by `add`; -1 if events were lost
    mask: int
    name: bytes  # in a watched folder


class Inotify:
    """An inotify instance. Raises OSError at a system limit, or if it is not Linux."""

    def __init__(self) -> None:
        try:
            self._fd = int(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError:
            raise OSError("this system has no inotify") from None
        if self._fd < 0:
            raise _error()
        self._put_back: list[InotifyEvent] = []
        self._wake: Callable[[], None] | None = None  # of the waiting caller

    def add(self, path: str | bytes, mask: int) -> int:
        """Adds a watch and returns its number; the same for the same file. Follows a link."""
        watch = int(_libc.inotify_add_watch(self._fd, os.fsencode(path), ctypes.c_uint32(mask)))
        if watch < 0:
            raise _error()
        return watch

    def add_open(self, descriptor: int, mask: int) -> int:
        """Watches an open file, whose name cannot be swapped meanwhile."""
        return self.add(f"/proc/self/fd/{descriptor}", mask)

    def remove(self, watch: int) -> None:
        """Removes a watch; it is no error if it no longer exists."""
        _libc.inotify_rm_watch(self._fd, watch)

    def read(self) -> list[InotifyEvent]:
        """Returns the pending events, if any, without waiting."""
        found, self._put_back = self._put_back, []
        with suppress(BlockingIOError):
            while len(found) < _MOST:
                found += _events(os.read(self._fd, _READ))
        return found

    def put_back(self, events: list[InotifyEvent]) -> None:
        """Makes events unread again, for the caller that waits for them."""
        self._put_back += events
        if events and self._wake:
            self._wake()

    def pending(self) -> bool:
        """Returns whether there are unread events."""
        if self._put_back:
            return True
        return bool(select.select([self._fd], [], [], 0)[0]) if self._fd >= 0 else False

    async def wait(self, seconds: float | None = None) -> bool:
        """Returns True when there are events to read, False on timeout."""
        if self._put_back:
            return True
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not ready.done():
                ready.set_result(None)

        self._wake = wake
        loop.add_reader(self._fd, wake)
        try:
            async with asyncio.timeout(seconds):
                await ready
        except TimeoutError:
            return False
        finally:
            self._wake = None
            loop.remove_reader(self._fd)
        return True

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Inotify:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _events(data: bytes) -> Iterator[InotifyEvent]:
    at = 0
    while at + _EVENT.size <= len(data):
        watch, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size
        yield InotifyEvent(watch, mask, data[at : at + length].rstrip(b"\0"))
        at += length


def _error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
