"""An agent that is only a row: what it tells besides prompting, it tells over the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bridle.agents.acp.agent import AcpAgent
from bridle.core.agent import SessionSpec
from bridle.core.agent_admin import Dialog, Installed, NativeSession, Run
from bridle.core.errors import BridleError, Unsupported


class PlainAcpAgent(AcpAgent):
    async def installed(self, run: Run) -> Installed:
        """With the version it says hello with: who knows what `--version` does to it."""
        path, version = run.find(self.row.command[0]), None
        if path:
            try:
                version = await self.ask(run, Path.home(), self._version())
            except BridleError:
                version = None  # it is there, and does not run; a session will say why
        return Installed(self.row.command[0], path, version, self.info.install)

    def _version(self) -> Dialog[str | None]:
        from bridle.agents.acp import handshake
        from bridle.agents.jsonrpc.peer import Peer
        from bridle.agents.jsonrpc.sequential_requests import call

        params = handshake.hello(self.dialect, SessionSpec(cwd=Path.home()))
        return handshake.abilities((yield from call(Peer(), "initialize", params))).version


class ListingAcpAgent(PlainAcpAgent):
    """One whose row says that it lists its sessions."""

    async def native_sessions(self, run: Run, cwd: Path) -> Sequence[NativeSession]:
        from bridle.agents.acp.list_sessions import sessions
        from bridle.agents.jsonrpc.sequential_requests import Refused

        try:
            return await self.ask(run, cwd, sessions(self.dialect, cwd))
        except Refused as refused:
            raise Unsupported(
                self.info.name, "listing its sessions", hint=refused.message
            ) from refused
