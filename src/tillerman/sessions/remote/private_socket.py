"""Unix socket server for this user only; handles each connection in its own task."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

from tillerman.hooks.peer_credentials import peer_of
from tillerman.paths import make_private

LONGEST_LINE = 16 * 1024 * 1024  # bytes: a written file is one line

Hear = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class PrivateSocketServer:
    """Accepts connections of this user; `admits` decides by the client's pid."""

    def __init__(
        self,
        receive: Hear,
        *,
        limit: int = LONGEST_LINE,
        admits: Callable[[int], bool] = lambda pid: True,
    ) -> None:
        self._receive = receive
        self._limit = limit
        self._admits = admits
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._path: Path | None = None

    async def open(self, path: Path) -> None:
        make_private(path.parent)
        path.unlink(missing_ok=True)  # this process holds the lease: the file is of a dead owner
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.bind(str(path))
            path.chmod(0o600)  # before it listens; a umask would affect other threads
            self._server = await asyncio.start_unix_server(
                self._accept, sock=listening, limit=self._limit
            )
        except BaseException:
            listening.close()
            raise
        self._path = path

    async def close(self) -> None:
        if self._server:
            self._server.close()
        for client in list(self._connections):
            client.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._path:
            self._path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            peer = peer_of(writer.get_extra_info("socket"))
            if peer.is_us and self._admits(peer.pid):
                await self._receive(reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()
