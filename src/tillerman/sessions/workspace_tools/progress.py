"""Progress reports of a long tool call to the waiting client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

SendProgress = Callable[[float, float | None, str], Awaitable[None]]

EVERY = 2.0  # seconds


class ProgressReport:
    """Progress of one call, in seconds since its start, so that it only increases."""

    def __init__(self, send: SendProgress | None) -> None:
        self._send = send
        self._clock = asyncio.get_running_loop().time
        self._began = self._clock()

    @property
    def is_wanted(self) -> bool:
        return self._send is not None

    @property
    def elapsed(self) -> float:
        return self._clock() - self._began

    async def send(self, text: str, total: float | None = None) -> None:
        if self._send:
            await self._send(self.elapsed, total, text)

    @contextlib.asynccontextmanager
    async def while_waiting(self, text: str) -> AsyncIterator[None]:
        """Sends the text repeatedly: a client without progress may time out."""

        async def repeat() -> None:
            while True:
                await asyncio.sleep(EVERY)
                await self.send(text)

        task = asyncio.create_task(repeat()) if self._send else None
        try:
            yield
        finally:
            if task:
                task.cancel()
                await asyncio.wait([task])
