"""ACP agent defined only by a row; queries use the protocol instead of vendor commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tillerman.agents.acp.agent import AcpAgent
from tillerman.core.agent_admin import Dialog, Installed, NativeSession, RunCommand
from tillerman.core.errors import TillermanError, Unsupported
from tillerman.core.session_options import session_spec


class RowAgent(AcpAgent):
    async def installed(self, run: RunCommand) -> Installed:
        """Reports the version from `initialize`, since the effect of `--version` is unknown."""
        path, version = run.find(self.row.command[0]), None
        if path:
            try:
                version = await self.ask(run, Path.home(), self._version())
            except TillermanError:
                version = None  # it is installed but does not run; a session reports the reason
        return Installed(self.row.command[0], path, version, self.info.install)

    def _version(self) -> Dialog[str | None]:
        from tillerman.agents.acp import handshake
        from tillerman.agents.jsonrpc.peer import RpcPeer
        from tillerman.agents.jsonrpc.sequential_requests import call

        params = handshake.hello(self.dialect, session_spec(cwd=Path.home()))
        return handshake.abilities((yield from call(RpcPeer(), "initialize", params))).version


class ListingRowAgent(RowAgent):
    """A row agent that supports session/list."""

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        from tillerman.agents.acp.list_sessions import sessions
        from tillerman.agents.jsonrpc.sequential_requests import RpcRefused

        try:
            return await self.ask(run, cwd, sessions(self.dialect, cwd))
        except RpcRefused as refused:
            raise Unsupported(
                self.info.name, "listing its sessions", hint=refused.message
            ) from refused
