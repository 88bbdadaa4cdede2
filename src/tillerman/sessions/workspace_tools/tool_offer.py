"""Offers the workspace tools of a session: adds their MCP server, serves and closes it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from tillerman.core.agent import SessionSpec
from tillerman.core.session_options import with_options
from tillerman.paths import Paths
from tillerman.sessions.enforcement.settings import SessionEnforcement
from tillerman.sessions.permissions.request_broker import RequestBroker
from tillerman.sessions.remote.private_socket import PrivateSocketServer
from tillerman.sessions.run_settings import SERVER, RunSettings
from tillerman.sessions.workspace_tools.process_calls import IsServed
from tillerman.sessions.workspace_tools.tool_runner import ToolRunner
from tillerman.store.process_table import ProcessTable
from tillerman.supervision.secrets import Secrets

ServeTools = Callable[[ToolRunner, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_RELAY = Path(__file__).parents[2] / "mcp" / "stdio_relay.py"


class ToolOffer:
    """Workspace tools of one session.

    `serve` handles a connection; None if the session is served another way. `is_served` returns
    whether a process runs another session.
    """

    def __init__(
        self,
        session: str,
        paths: Paths,
        table: ProcessTable,
        serve: ServeTools | None,
        is_served: IsServed,
    ) -> None:
        self._session = session
        self._paths = paths
        self._table = table
        self._serve = serve
        self._is_served = is_served
        self._socket = paths.socket(f"{session}-tools")
        self._bench: ToolRunner | None = None
        self._reception: PrivateSocketServer | None = None

    def announced(self, spec: SessionSpec) -> SessionSpec:
        """Adds the relay as an MCP server that the agent starts."""
        words = ["-I", "-S", str(_RELAY), str(self._socket)]
        server = {"command": sys.executable, "args": words}
        return with_options(spec, servers={**spec.tools.servers, SERVER: server})

    async def open(
        self,
        spec: SessionSpec,
        run_settings: RunSettings,
        broker: RequestBroker,
        secrets: Secrets,
        enforcement: SessionEnforcement,
    ) -> ToolRunner:
        assert run_settings.bench is not None
        bench = self._bench = await ToolRunner.open(
            self._session,
            spec.cwd,
            run_settings.bench,
            broker,
            secrets=secrets,
            table=self._table,
            processes=self._paths.processes,
            records=self._paths.spawns,
            exports=self._paths.exports / self._session,
            locks=self._paths.file_locks,
            supervision=run_settings.supervision,
            enforcement=enforcement,
            is_served=self._is_served,
        )
        if self._serve:
            self._reception = PrivateSocketServer(partial(self._serve, bench), admits=bench.admits)
            await self._reception.open(self._socket)
        return bench

    async def close(self) -> None:
        if self._reception:
            await self._reception.close()
        if self._bench:
            await self._bench.close()
