"""Where an agent's relay reaches the workspace's tools: a socket that only this user can open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from bridle.hooks.peer import peer_of

LONGEST_LINE = 16 * 1024 * 1024  # bytes: a file that is written comes in one

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Counter:
    """`serve` speaks with each who comes; `admits` tells by their pid whether they may."""

    def __init__(self, serve: Serve, admits: Callable[[int], bool]) -> None:
        self._serve = serve
        self._admits = admits
        self._server: asyncio.Server | None = None
        self._visits: set[asyncio.Task[None]] = set()
        self._path: Path | None = None

    async def open(self, path: Path) -> None:
        path.unlink(missing_ok=True)  # we hold the lease: what lies here is a dead owner's
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._welcome, path, limit=LONGEST_LINE)
        finally:
            os.umask(before)
        self._path = path

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for visit in list(self._visits):
            visit.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)
        if self._path:
            self._path.unlink(missing_ok=True)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        try:
            peer = peer_of(writer.get_extra_info("socket"))
            if peer.is_us and self._admits(peer.pid):
                await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._visits.discard(task)
            writer.close()
