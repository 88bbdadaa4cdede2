"""Agent class for OpenCode: two transports, account, models, stored sessions, MCP servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tillerman.agents.acp.two_transports import TwoTransportAgent
from tillerman.agents.commands.locate import output
from tillerman.agents.opencode.dialect import ROW, OpencodeDialect
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import Conversation, Host, SessionSpec
from tillerman.core.agent_admin import Account, McpServer, Model, NativeSession, RunCommand
from tillerman.core.wire import Wire

if TYPE_CHECKING:  # the program is started before these are imported
    from tillerman.core.events import Event

# `run` prints whole parts, cannot ask, and accepts no binary files.
_RUN_LACKS = frozenset({"streaming", "permissions", "images", "retries"})


def _run_wire(spec: SessionSpec) -> Wire:
    from tillerman.agents.opencode.run_wire import OpencodeRunWire

    return OpencodeRunWire(spec)


_RUN = replace(ROW.info, can=ROW.info.can - _RUN_LACKS | {"subagents"}, asks=frozenset())
RUN = StdioAgent(_RUN, _run_wire)


class OpenCodeAgent(TwoTransportAgent):
    def __init__(self) -> None:
        super().__init__(ROW, OpencodeDialect, RUN, surface="run")

    def _wire(self, spec: SessionSpec) -> Wire:
        from tillerman.agents.opencode.wire import OpencodeWire

        return OpencodeWire(self.dialect, spec)

    async def open_acp(self, spec: SessionSpec, host: Host) -> Conversation:
        from tillerman.agents.opencode.conversation import CountedConversation

        talk = CountedConversation(self.info, self.wire(spec), spec, host, self._grace)
        await talk.start()
        return talk

    async def account(self, run: RunCommand) -> Account:
        from tillerman.agents.opencode import command_output

        found = command_output.account(await output(run, self.info, ["auth", "list"]))
        if found.signed_in:
            return found
        return command_output.configured(await output(run, self.info, ["models"], limit=60))

    async def models(self, run: RunCommand) -> Sequence[Model]:
        from tillerman.agents.opencode import command_output

        return command_output.models(
            await output(run, self.info, ["models", "--verbose"], limit=60)
        )

    def login(self) -> Sequence[str]:
        return ["opencode", "auth", "login"]

    def logout(self) -> Sequence[str]:
        return ["opencode", "auth", "logout"]

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        """Lists by ACP; the native command lists only those of its working directory."""
        from tillerman.agents.acp.list_sessions import sessions
        from tillerman.agents.commands.locate import binary

        argv = [binary(run, self.info), *ROW.command[1:]]
        return await run.dialog(argv, sessions(self.dialect, cwd), limit=60)

    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        from tillerman.agents.opencode import command_output

        words = ["export", session.native_id]
        return command_output.history(
            await output(run, self.info, words, limit=60), session.cwd or ""
        )

    async def mcp_servers(self, run: RunCommand) -> Sequence[McpServer]:
        from tillerman.agents.opencode import command_output

        printed = await output(run, self.info, ["mcp", "list"], limit=60)  # it connects to each
        return command_output.servers(printed)

    async def mcp_add(self, run: RunCommand, name: str, config: Mapping[str, Any]) -> None:
        from tillerman.agents.opencode import mcp_settings

        mcp_settings.add(run.variable, name, config)

    async def mcp_remove(self, run: RunCommand, name: str) -> None:
        from tillerman.agents.opencode import mcp_settings

        mcp_settings.remove(run.variable, name)

    async def mcp_switch(self, run: RunCommand, name: str, on: bool) -> None:
        from tillerman.agents.opencode import mcp_settings

        mcp_settings.switch(run.variable, name, on)


agent = OpenCodeAgent()
