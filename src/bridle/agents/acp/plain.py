"""An agent that is only a row: what it tells besides prompting, it tells over the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from bridle.agents.acp.agent import AcpAgent
from bridle.core.agent import SessionSpec
from bridle.core.errors import BridleError, Unsupported
from bridle.core.management import Dialog, Installed, NativeSession, Run

_START = 20  # seconds; a slow one on a busy machine takes five

T = TypeVar("T")


class PlainAcpAgent(AcpAgent):
    async def installed(self, run: Run) -> Installed:
        """With the version it says hello with: who knows what `--version` does to it."""
        path, version = run.find(self.row.command[0]), None
        if path:
            try:
                version = await self._ask(run, path, Path.home(), self._version())
            except BridleError:
                version = None  # it is there, and does not run; a session will say why
        return Installed(self.row.command[0], path, version, self.info.install)

    async def _ask(self, run: Run, path: str, cwd: Path, dialog: Dialog[T]) -> T:
        launch = self.dialect.launch(SessionSpec(cwd=cwd))
        env = {name: word for name, word in launch.env.items() if isinstance(word, str)}
        return await run.dialog([path, *launch.argv[1:]], dialog, env=env, limit=_START)

    def _version(self) -> Dialog[str | None]:
        from bridle.agents.acp import hello
        from bridle.agents.dialog import call
        from bridle.agents.jsonrpc import Peer

        params = hello.hello(self.dialect, SessionSpec(cwd=Path.home()))
        return hello.abilities((yield from call(Peer(), "initialize", params))).version


class ListingAcpAgent(PlainAcpAgent):
    """One whose row says that it lists its sessions."""

    async def native_sessions(self, run: Run, cwd: Path) -> Sequence[NativeSession]:
        from bridle.agents.acp.listing import sessions
        from bridle.agents.commands import binary
        from bridle.agents.dialog import Refused

        try:
            return await self._ask(run, binary(run, self.info), cwd, sessions(self.dialect, cwd))
        except Refused as refused:
            raise Unsupported(
                self.info.name, "listing its sessions", hint=refused.message
            ) from refused
