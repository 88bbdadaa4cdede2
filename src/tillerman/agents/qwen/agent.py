"""Agent class for Qwen Code: two transports, account, models, stored sessions, MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tillerman.agents.acp.two_transports import TwoTransportAgent
from tillerman.agents.commands.locate import output, plain
from tillerman.agents.qwen.dialect import QwenDialect
from tillerman.agents.qwen.launch import ROW, home
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Conversation, Host, SessionSpec
from tillerman.core.agent_admin import Account, McpServer, Model, NativeSession, RunCommand
from tillerman.core.events import Event
from tillerman.core.session_options import with_options
from tillerman.core.wire import Wire

# Its stream sends images as text to the model, and accepts no answers to questions.
_LACKS = frozenset({"images", "questions", "background"})


def _stream(spec: SessionSpec) -> Wire:
    from tillerman.agents.qwen.json_wire import QwenStreamWire

    return QwenStreamWire(spec)


class QwenCode(TwoTransportAgent):
    def __init__(self) -> None:
        stream = StdioAgent(replace(ROW.info, can=ROW.info.can - _LACKS), _stream)
        super().__init__(ROW, QwenDialect, stream, surface="stream-json", since="0.8.2")

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        from tillerman.agents.qwen.ask_policy import refuse_other_deciders, system_files

        refuse_other_deciders(host.variable, spec.cwd)
        options = {**spec.native.options, **system_files(host.variable)}
        return await super().open(with_options(spec, options=options), host)

    async def open_acp(self, spec: SessionSpec, host: Host) -> Conversation:
        from tillerman.agents.qwen import stored_sessions
        from tillerman.agents.stdio.recorded_conversation import RecordedConversation

        read = partial(stored_sessions.recorded, home(host.variable))
        talk = RecordedConversation(self.info, self.wire(spec), spec, host, self._grace, read=read)
        await talk.start()
        return talk

    async def account(self, run: RunCommand) -> Account:
        from tillerman.agents.qwen.account import account

        return account(home(run.variable), run.variable)

    async def models(self, run: RunCommand) -> Sequence[Model]:
        from tillerman.agents.qwen.models import models

        return await models(self, run)

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        from tillerman.agents.qwen import stored_sessions

        return stored_sessions.sessions(home(run.variable), cwd)

    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        from tillerman.agents.qwen import stored_sessions

        return stored_sessions.history(home(run.variable), session)

    async def mcp_servers(self, run: RunCommand) -> Sequence[McpServer]:
        from tillerman.agents.commands.mcp_settings_file import listed

        # It connects to each.
        return listed(plain(await output(run, self.info, ["mcp", "list"], limit=60)))

    async def mcp_add(self, run: RunCommand, name: str, config: Mapping[str, Any]) -> None:
        from tillerman.agents.commands.mcp_settings_file import added, edit

        edit(self.info.name, _settings(run), lambda settings: added(settings, name, config))

    async def mcp_remove(self, run: RunCommand, name: str) -> None:
        from tillerman.agents.commands.mcp_settings_file import edit, removed

        edit(self.info.name, _settings(run), lambda stored: removed(self.info.name, stored, name))

    async def mcp_switch(self, run: RunCommand, name: str, on: bool) -> None:
        from tillerman.agents.commands.mcp_settings_file import edit
        from tillerman.agents.qwen.stored_sessions import switched

        edit(self.info.name, _settings(run), lambda settings: switched(settings, name, on))


def _settings(run: RunCommand) -> Path:
    return home(run.variable) / "settings.json"


agent = QwenCode()
