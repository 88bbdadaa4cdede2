"""Merges stderr lines of a program with the batches of its stdout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

LONGEST = 4096  # characters of a line; the rest is dropped
MOST = 1000  # lines in the queue; further lines are dropped

T = TypeVar("T")


class StderrLines:
    def __init__(self) -> None:
        self._queue: asyncio.Queue[str] = asyncio.Queue(MOST)
        self._part = b""

    def feed(self, chunk: bytes) -> None:
        *lines, part = (self._part + chunk).split(b"\n")
        self._part = part[:LONGEST]
        for line in lines:
            if not self._queue.full():
                self._queue.put_nowait(line[:LONGEST].decode("utf-8", "replace").rstrip())

    @property
    def waiting(self) -> int:
        return self._queue.qsize()

    async def beside(self, batches: AsyncIterator[T]) -> AsyncIterator[T | str]:
        """Yields batches and stderr lines as they arrive; ends with the batches."""
        batch = asyncio.ensure_future(anext(batches))
        line = asyncio.create_task(self._queue.get())
        try:
            while True:
                await asyncio.wait([batch, line], return_when=asyncio.FIRST_COMPLETED)
                if line.done():
                    yield line.result()
                    line = asyncio.create_task(self._queue.get())
                if batch.done():
                    try:
                        yield batch.result()
                    except StopAsyncIteration:
                        return
                    batch = asyncio.ensure_future(anext(batches))
        finally:
            batch.cancel()
            line.cancel()
