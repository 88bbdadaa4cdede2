"""Asynchronous reader and writer for a child's pipes, with backpressure and batched reads."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import struct
import termios
from collections import deque
from collections.abc import Iterator
from itertools import count
from math import ceil
from typing import ClassVar
from weakref import WeakSet

CHUNK = 256 * 1024
HIGH_WATER = 1024 * 1024
KEEPING = 64  # bytes of memory that each chunk costs besides its content
REST = 0.001  # seconds between two reads, for each active pipe
STEP = 0.010  # seconds: a longer pause is a multiple of it, so one more pipe rarely changes it
ROUNDS = 2  # in a longer pause, each for half of the pipes


class PipeReader:
    """Reads ahead up to a limit, then lets the pipe fill: a slow consumer slows the child.

    Every chunk costs a wake-up all the way to the disk. So each read is followed by a pause, which
    is longer the more pipes are active: one agent is read at once, and fifty agents in large
    chunks. Many pipes are read in rounds: half of them at a time, for one wake-up.
    """

    _at_rest: ClassVar[WeakSet[PipeReader]] = WeakSet()  # read, and not found empty since
    _places: ClassVar[Iterator[int]] = count()

    def __init__(self, fd: int, *, rest: float = REST) -> None:
        self._fd = fd
        self._rest = rest
        os.set_blocking(fd, False)
        _widen(fd)
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._awaited = True  # the event loop watches the file descriptor
        self._pause_timer: asyncio.TimerHandle | None = None
        self._place = 0
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop.add_reader(fd, self._readable)

    async def read(self) -> bytes:
        """The next chunk; empty at the end."""
        while not self._chunks:
            if self._ended:
                return b""
            self._waiter = self._loop.create_future()
            await self._waiter
        chunk = self._chunks.popleft()
        self._size -= len(chunk) + KEEPING
        self._read_on()
        return chunk

    def finish(self) -> None:
        """The writer has exited: reads what is in the pipe now, and does not wait for more."""
        left = b"\0\0\0\0"
        if not self._ended:
            left = fcntl.ioctl(self._fd, termios.FIONREAD, left)
        remaining = struct.unpack("i", left)[0]
        while remaining > 0 and not self._ended and (taken := self._take(min(remaining, CHUNK))):
            remaining -= taken
        self.close()

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._wake_up()
            self._await_nothing()
            os.close(self._fd)
        self._wake()

    def _readable(self) -> None:
        self._take(CHUNK)
        if not self._ended:
            self._await_nothing()
            self._at_rest.add(self)
            self._place = next(self._places)
            self._pause()

    def _on_pause_end(self) -> None:
        """Reads what has arrived during the pause without going through the event loop."""
        if self._size < HIGH_WATER and self._take(CHUNK):
            if not self._ended:
                self._pause()
            return
        self._wake_up()
        self._read_on()

    def _pause(self) -> None:
        self._pause_timer = self._loop.call_at(self._pause_end(), self._on_pause_end)

    def _pause_end(self) -> float:
        now, rest = self._loop.time(), self._rest * len(self._at_rest)
        if rest <= STEP:
            return now + rest
        apart = ceil(round(rest / STEP, 6)) * STEP / ROUNDS
        soonest = int(now / apart) + 2  # neither the current round nor one that starts too soon
        return (soonest + (self._place - soonest) % ROUNDS) * apart

    def _wake_up(self) -> None:
        if self._pause_timer:
            self._pause_timer.cancel()
            self._pause_timer = None
            self._at_rest.discard(self)

    def _read_on(self) -> None:
        if self._awaited or self._pause_timer or self._ended or self._size >= HIGH_WATER:
            return
        self._awaited = True
        self._loop.add_reader(self._fd, self._readable)

    def _await_nothing(self) -> None:
        if self._awaited:
            self._awaited = False
            self._loop.remove_reader(self._fd)

    def _take(self, limit: int) -> int:
        """Returns the number of bytes read; 0 if there are none, and `limit` at the end."""
        try:
            chunk = os.read(self._fd, limit)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return limit
        self._chunks.append(chunk)
        self._size += len(chunk) + KEEPING
        self._wake()
        return len(chunk)

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)


class PipeWriter:
    """Writes whole messages in order; ignores a closed pipe, since the exit is reported anyway."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd
        self._loop = asyncio.get_running_loop()
        self._turn = asyncio.Lock()
        self._ready: asyncio.Future[None] | None = None

    async def write(self, data: bytes) -> None:
        async with self._turn:
            view = memoryview(data)
            while view and self._fd is not None:
                try:
                    view = view[os.write(self._fd, view[:CHUNK]) :]
                except (BlockingIOError, InterruptedError):
                    await self._writable()
                except OSError:
                    self.close()

    def close(self) -> None:
        if self._fd is not None:
            fd, self._fd = self._fd, None
            self._loop.remove_writer(fd)
            os.close(fd)
            self._wake()

    async def _writable(self) -> None:
        assert self._fd is not None
        self._ready = self._loop.create_future()
        self._loop.add_writer(self._fd, self._wake)
        try:
            await self._ready
        finally:
            if self._fd is not None:
                self._loop.remove_writer(self._fd)

    def _wake(self) -> None:
        if self._ready and not self._ready.done():
            self._ready.set_result(None)


def _widen(fd: int) -> None:
    """Enlarges the pipe to hold a whole chunk, for fewer switches between reader and child."""
    with contextlib.suppress(OSError, AttributeError):  # not on every system, and limited per user
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, CHUNK)
