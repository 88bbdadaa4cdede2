"""Qwen Code as an agent of bridle: its two surfaces, and what it tells besides prompting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bridle.agents.acp.agent import AcpAgent
from bridle.agents.commands import installed, output, plain
from bridle.agents.native import packaged_version
from bridle.agents.qwen.dialect import QwenDialect
from bridle.agents.qwen.launch import ROW, acp, home
from bridle.agents.stdio import StdioAgent
from bridle.agents.support import refuse_unsupported
from bridle.core.agent import Conversation, Host, SessionSpec
from bridle.core.events import Event
from bridle.core.management import Account, Installed, McpServer, Model, NativeSession, Run
from bridle.core.versions import standing
from bridle.core.wire import Launch, Wire

# Its stream sends images as text to the model, and takes no answers to questions.
_LACKS = frozenset({"images", "questions", "background"})


_ACP = ("0.8.2", "9999")  # the versions that have `--acp`


def _stream(spec: SessionSpec) -> Wire:
    from bridle.agents.qwen.stream import QwenStreamWire

    return QwenStreamWire(spec)


class QwenCode(AcpAgent):
    """`[agents.qwen] surface = "stream-json"` takes the other, as does a version without ACP."""

    def __init__(self) -> None:
        super().__init__(ROW, QwenDialect)
        self.stream = StdioAgent(replace(ROW.info, can=ROW.info.can - _LACKS), _stream)

    def program(self, spec: SessionSpec) -> Launch:
        return acp(spec)

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        if spec.options.get("surface") == "stream-json":
            return await self.stream.open(spec, host)
        refuse_unsupported(self.info, spec)
        program = host.find(str(spec.options.get("binary") or ROW.command[0]))
        if program and standing(_ACP, packaged_version(program)) == "older":
            return await self.stream.open(spec, host)
        return await super().open(spec, host)

    async def installed(self, run: Run) -> Installed:
        return await installed(run, self.info)

    async def account(self, run: Run) -> Account:
        from bridle.agents.qwen.account import account

        return account(home(run.variable), run.variable)

    async def models(self, run: Run) -> Sequence[Model]:
        from bridle.agents.qwen.models import models

        return await models(run)

    async def native_sessions(self, run: Run, cwd: Path) -> Sequence[NativeSession]:
        from bridle.agents.qwen import store

        return store.sessions(home(run.variable), cwd)

    async def native_history(self, run: Run, session: NativeSession) -> Sequence[Event]:
        from bridle.agents.qwen import store

        return store.history(home(run.variable), session)

    async def mcp_servers(self, run: Run) -> Sequence[McpServer]:
        from bridle.agents.mcp_settings import listed

        # It connects to each.
        return listed(plain(await output(run, self.info, ["mcp", "list"], limit=60)))

    async def mcp_add(self, run: Run, name: str, config: Mapping[str, Any]) -> None:
        from bridle.agents.mcp_settings import added, edit

        edit(self.info.name, _settings(run), lambda settings: added(settings, name, config))

    async def mcp_remove(self, run: Run, name: str) -> None:
        from bridle.agents.mcp_settings import edit, removed

        edit(self.info.name, _settings(run), lambda kept: removed(self.info.name, kept, name))

    async def mcp_switch(self, run: Run, name: str, on: bool) -> None:
        from bridle.agents.mcp_settings import edit
        from bridle.agents.qwen.store import switched

        edit(self.info.name, _settings(run), lambda settings: switched(settings, name, on))


def _settings(run: Run) -> Path:
    return home(run.variable) / "settings.json"
