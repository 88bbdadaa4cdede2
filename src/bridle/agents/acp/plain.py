"""An agent that is only a row: what it tells besides prompting, it tells over the protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bridle.agents.acp.agent import AcpAgent
from bridle.core.agent import Dialog, Installed, NativeSession, Run, SessionSpec
from bridle.core.errors import BridleError, Unsupported

if TYPE_CHECKING:
    from bridle.agents.acp.hello import Abilities
    from bridle.agents.jsonrpc import Peer

    T = TypeVar("T")
    Talk = Callable[[Peer, Abilities, SessionSpec], Dialog[T]]

_START = 20  # seconds; a slow one on a busy machine takes five


class PlainAcpAgent(AcpAgent):
    async def installed(self, run: Run) -> Installed:
        """With the version it says hello with: who knows what `--version` does to it."""
        path, version = run.find(self.row.command[0]), None
        if path:
            try:
                version = (await self._talk(run, path, Path.home(), _greeting)).version
            except BridleError:
                version = None  # it is there, and does not run; a session will say why
        return Installed(self.row.command[0], path, version, self.info.install)

    async def _talk(self, run: Run, path: str, cwd: Path, then: Talk[T]) -> T:
        spec = SessionSpec(cwd=cwd)
        launch = self.dialect.launch(spec)
        env = {name: word for name, word in launch.env.items() if isinstance(word, str)}
        words = [path, *launch.argv[1:]]
        return await run.dialog(words, self._hello(spec, then), env=env, limit=_START)

    def _hello(self, spec: SessionSpec, then: Talk[T]) -> Dialog[T]:
        from bridle.agents.acp import hello
        from bridle.agents.dialog import call
        from bridle.agents.jsonrpc import Peer

        peer = Peer()
        said = yield from call(peer, "initialize", hello.hello(self.dialect, spec))
        return (yield from then(peer, hello.abilities(said), spec))


class ListingAcpAgent(PlainAcpAgent):
    """One whose row says that it lists its sessions."""

    async def native_sessions(self, run: Run, cwd: Path) -> Sequence[NativeSession]:
        from bridle.agents.commands import binary

        listed = await self._talk(run, binary(run, self.info), cwd, _listing)
        if listed is None:
            raise Unsupported(self.info.name, "listing its sessions", hint="a newer version may")
        return listed


def _greeting(peer: Peer, can: Abilities, spec: SessionSpec) -> Dialog[Abilities]:
    yield from ()
    return can


def _listing(peer: Peer, can: Abilities, spec: SessionSpec) -> Dialog[list[NativeSession] | None]:
    from bridle.agents.dialog import call

    if "list" not in can.sessions:
        return None
    told = yield from call(peer, "session/list", {"cwd": str(spec.cwd)})
    return list(sessions(told, str(spec.cwd)))


def sessions(told: Any, cwd: str) -> Sequence[NativeSession]:
    """Of this folder: some agents list those of all."""
    from bridle.agents.fields import tables, text

    found = tables(told if isinstance(told, dict) else {}, "sessions")
    return [
        NativeSession(
            native_id=text(one, "sessionId"),
            title=text(one, "title"),
            updated=text(one, "updatedAt"),
            cwd=text(one, "cwd") or None,
        )
        for one in found
        if text(one, "sessionId") and text(one, "cwd") in ("", cwd)
    ]
