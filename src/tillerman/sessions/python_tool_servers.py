"""Serves the Python functions of a session as MCP servers, over sockets that relays connect to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tillerman.core.program.python_tools import ToolServer
from tillerman.paths import Paths
from tillerman.sessions.remote.private_socket import PrivateSocketServer
from tillerman.sessions.workspace_tools.tool_offer import relay

ServeFunctions = Callable[[ToolServer, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class PythonToolServers:
    """The servers of one session. `serve` handles a connection to one."""

    def __init__(
        self, session: str, paths: Paths, servers: Mapping[str, ToolServer], serve: ServeFunctions
    ) -> None:
        self._servers = servers
        self._serve = serve
        self._sockets: Mapping[str, Path] = {
            name: paths.socket(f"{session}-py{number}") for number, name in enumerate(servers)
        }
        self._open: list[PrivateSocketServer] = []

    @property
    def relays(self) -> dict[str, dict[str, Any]]:
        """The servers as an agent starts them."""
        return {name: relay(socket) for name, socket in self._sockets.items()}

    async def open(self) -> None:
        for name, socket in self._sockets.items():
            server = PrivateSocketServer(partial(self._serve, self._servers[name]))
            await server.open(socket)
            self._open.append(server)

    async def close(self) -> None:
        for server in self._open:
            await server.close()
