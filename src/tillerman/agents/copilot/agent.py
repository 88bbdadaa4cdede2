"""Agent class for GitHub Copilot CLI: two transports, account, models, sessions, MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tillerman.agents.acp.two_transports import TwoTransportAgent
from tillerman.agents.commands.locate import binary, output
from tillerman.agents.copilot.dialect import ROW, CopilotDialect
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.capability_check import refuse
from tillerman.core.agent import Conversation, Host, SessionSpec
from tillerman.core.agent_admin import Account, McpServer, Model, NativeSession, RunCommand
from tillerman.core.wire import Launch, Wire

if TYPE_CHECKING:  # the program is started before these are imported
    from tillerman.core.events import Event

# One process per turn cannot ask, accepts no binary files, and reports no tokens.
_LINES_LACK = frozenset({"permissions", "images", "usage", "changed_input"})
_HOOKS_GIVE = frozenset({"changed_input"})


def _json_wire(spec: SessionSpec) -> Wire:
    from tillerman.agents.copilot.json_wire import CopilotJsonWire

    return CopilotJsonWire(spec)


_LINES = replace(ROW.info, can=ROW.info.can - _LINES_LACK, asks=frozenset())
JSON = StdioAgent(_LINES, _json_wire)


class CopilotAgent(TwoTransportAgent):
    def __init__(self) -> None:
        super().__init__(ROW, CopilotDialect, JSON, surface="json")

    def _wire(self, spec: SessionSpec) -> Wire:
        from tillerman.agents.copilot.wire import CopilotWire

        return CopilotWire(self.dialect, spec)

    def program(self, spec: SessionSpec) -> Launch | None:
        """None: the hook address must be known before the program starts."""
        return None

    async def open_acp(self, spec: SessionSpec, host: Host) -> Conversation:
        from tillerman.agents.copilot.conversation import (
            CopilotConversation,
            HookedCopilotConversation,
        )
        from tillerman.agents.copilot.hook_plugin import files
        from tillerman.agents.copilot.wire import CopilotWire

        wire = CopilotWire(self.dialect, spec)
        if spec.native.options.get("hooks") is False:
            info = replace(self.info, can=self.info.can - _HOOKS_GIVE, asks=frozenset())
            refuse(info, spec)
            talk = CopilotConversation(info, wire, spec, host, self._grace)
        else:
            talk = hooked = HookedCopilotConversation(self.info, wire, spec, host, self._grace)
            wire.plugin = files(await hooked.listen(), host.request_timeout)
        await talk.start()
        return talk

    async def account(self, run: RunCommand) -> Account:
        from tillerman.agents.copilot import stored_sessions

        return stored_sessions.account(stored_sessions.folder(run.variable), run.variable)

    async def models(self, run: RunCommand) -> Sequence[Model]:
        from tillerman.agents.copilot import command_output

        return command_output.models(await output(run, self.info, ["help", "config"]))

    def login(self) -> Sequence[str]:
        return ["copilot", "login"]

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        from tillerman.agents.acp.list_sessions import sessions

        argv = [binary(run, self.info), *ROW.command[1:]]
        return await run.dialog(argv, sessions(self.dialect, cwd))

    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        from tillerman.agents.copilot import stored_sessions

        return stored_sessions.history(stored_sessions.folder(run.variable), session)

    async def mcp_servers(self, run: RunCommand) -> Sequence[McpServer]:
        from tillerman.agents.copilot import command_output

        return command_output.servers(await output(run, self.info, ["mcp", "list", "--json"]))

    async def mcp_add(self, run: RunCommand, name: str, config: Mapping[str, Any]) -> None:
        from tillerman.agents.commands.mcp_settings_file import edit
        from tillerman.agents.copilot import stored_sessions

        path = stored_sessions.folder(run.variable) / "mcp-config.json"
        edit(self.info.name, path, lambda settings: stored_sessions.added(settings, name, config))

    async def mcp_remove(self, run: RunCommand, name: str) -> None:
        await output(run, self.info, ["mcp", "remove", "--", name])

    async def mcp_switch(self, run: RunCommand, name: str, on: bool) -> None:
        await output(run, self.info, ["mcp", "enable" if on else "disable", "--", name])


agent = CopilotAgent()
