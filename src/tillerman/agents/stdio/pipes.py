"""Asynchronous ends of a child's pipes: a reader that holds the child back, and a writer."""

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
KEEPING = 64  # bytes of memory that a chunk costs besides its own, however short it is
REST = 0.001  # seconds from one read to the next, for each pipe that something has come from
STEP = 0.010  # seconds: a longer rest is a multiple of it, so that it stays when one more speaks
ROUNDS = 2  # in a longer rest, each of half the pipes


class PipeReader:
    """Reads ahead up to a mark, then lets the pipe fill: a slow consumer slows the child.

    Every chunk costs a wake-up all the way to the disk. So each read is followed by a rest, the
    longer the more pipes speak: one agent is heard at once, and of fifty each many words at a time.
    Many are read in rounds: half of them at a time, for one wake-up.
    """

    _at_rest: ClassVar[WeakSet[PipeReader]] = WeakSet()  # read, and not found silent since
    _places: ClassVar[Iterator[int]] = count()

    def __init__(self, fd: int, *, rest: float = REST) -> None:
        self._fd = fd
        self._rest = rest
        os.set_blocking(fd, False)
        _widen(fd)
        self._loop = asyncio.get_running_loop()
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._awaited = True  # the loop tells when something comes
        self._resting: asyncio.TimerHandle | None = None
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
        """The writer is gone: take what is in the pipe now, and wait for nobody else's bytes."""
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
            self._go_to_rest()

    def _rested(self) -> None:
        """What has come meanwhile is taken without asking the loop whether something has."""
        if self._size < HIGH_WATER and self._take(CHUNK):
            if not self._ended:
                self._go_to_rest()
            return
        self._wake_up()
        self._read_on()

    def _go_to_rest(self) -> None:
        self._resting = self._loop.call_at(self._end_of_rest(), self._rested)

    def _end_of_rest(self) -> float:
        now, rest = self._loop.time(), self._rest * len(self._at_rest)
        if rest <= STEP:
            return now + rest
        apart = ceil(round(rest / STEP, 6)) * STEP / ROUNDS
        soonest = int(now / apart) + 2  # not the round that is just over, nor one in a moment
        return (soonest + (self._place - soonest) % ROUNDS) * apart

    def _wake_up(self) -> None:
        if self._resting:
            self._resting.cancel()
            self._resting = None
            self._at_rest.discard(self)

    def _read_on(self) -> None:
        if self._awaited or self._resting or self._ended or self._size >= HIGH_WATER:
            return
        self._awaited = True
        self._loop.add_reader(self._fd, self._readable)

    def _await_nothing(self) -> None:
        if self._awaited:
            self._awaited = False
            self._loop.remove_reader(self._fd)

    def _take(self, limit: int) -> int:
        """Bytes that were read; 0 when nothing has come, and `limit` at the end."""
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
    """Writes whole messages in order, and says nothing when the reader is gone: its exit will."""

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
    """A pipe takes a chunk at once, so that reader and child need not take turns so often."""
    with contextlib.suppress(OSError, AttributeError):  # not everywhere, and not without end
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, CHUNK)
