"""Agent class for Cursor: installation, account, models, stored sessions, MCP servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tillerman.agents.commands import locate, mcp_settings_file
from tillerman.agents.cursor import command_output, config, stored_sessions
from tillerman.agents.cursor.failures import SIGN_IN
from tillerman.agents.decoding.fields import Table, table
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.capability_check import refuse
from tillerman.core.agent import AgentInfo, Conversation, Host, SessionSpec
from tillerman.core.agent_admin import (
    Account,
    Installed,
    McpServer,
    McpTool,
    Model,
    NativeSession,
    RunCommand,
)
from tillerman.core.errors import AgentError
from tillerman.core.wire import Wire

if TYPE_CHECKING:
    from tillerman.core.events import Event

BINARY = "cursor-agent"
_CAN = frozenset(
    {"streaming", "thinking", "resume", "cancel", "modes", "model", "mcp", "system", "folders",
     "subagents", "usage", "sandbox", "permissions", "changed_input"}
)  # fmt: skip
_BY_HOOKS = frozenset({"permissions", "changed_input"})
INFO = AgentInfo(
    name="cursor",
    title="Cursor",
    can=_CAN,
    binary=BINARY,
    install="curl https://cursor.com/install -fsS | bash",
    variables=(
        "CURSOR_API_KEY",
        "CURSOR_AUTH_TOKEN",
        "CURSOR_API_ENDPOINT",
        "CURSOR_CONFIG_DIR",
        "CURSOR_DATA_DIR",
        "AGENT_CLI_CREDENTIAL_STORE",
        "NODE_USE_ENV_PROXY",
    ),
    asks=frozenset({"write", "shell", "mcp"}),
    preset_at_launch=True,
)


def _wire(spec: SessionSpec) -> Wire:
    from tillerman.agents.cursor.wire import CursorWire

    return CursorWire(spec)


class Cursor(StdioAgent):
    def __init__(self) -> None:
        super().__init__(INFO, _wire)

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        refuse(self.info, spec)
        if spec.resume and stored_sessions.lacks(config.home(host.variable), spec.resume):
            raise AgentError(
                self.info.name,
                f"Cursor has no conversation {spec.resume}, and would start an empty one",
                hint="resume a conversation started over ACP with -a cursor-acp",
            )
        from tillerman.agents.cursor.hooks import hook_plugin

        version = await hook_plugin.version_of(host.find(_program(spec)), host)
        if version and hook_plugin.runs(version):
            return await self._open_gated(spec, host, version)
        return self._open_withholding(spec, host)

    async def _open_gated(self, spec: SessionSpec, host: Host, version: str) -> Conversation:
        from tillerman.agents.cursor.hook_requests import CursorHookRequests
        from tillerman.agents.cursor.hooks import hook_plugin
        from tillerman.agents.cursor.wire import CursorWire
        from tillerman.agents.stdio.hooked_per_turn_conversation import HookedPerTurnConversation

        wire, gate = CursorWire(spec, config.read(host.variable)), CursorHookRequests(spec)
        talk = HookedPerTurnConversation(self.info, wire, gate, spec, host, self._grace)
        wire.plugin = hook_plugin.files(await talk.listen(), version, host.request_timeout)
        return talk

    def _open_withholding(self, spec: SessionSpec, host: Host) -> Conversation:
        """For a version that does not run our hooks: it cannot ask, so tools are withheld."""
        from tillerman.agents.cursor.wire import CursorWire
        from tillerman.agents.stdio.per_turn_conversation import PerTurnConversation

        info = replace(self.info, can=self.info.can - _BY_HOOKS, asks=frozenset())
        refuse(info, spec)
        wire = CursorWire(spec, config.read(host.variable))
        return PerTurnConversation(info, wire, spec, host, self._grace)

    async def installed(self, run: RunCommand) -> Installed:
        return await locate.installed(run, INFO)

    async def account(self, run: RunCommand) -> Account:
        """Reads the status output; its exit code is 0 even if not signed in."""
        key = bool(run.variable("CURSOR_API_KEY") or run.variable("CURSOR_AUTH_TOKEN"))
        return command_output.account(await _output(run, "status", "--format", "json"), key=key)

    async def about(self, run: RunCommand) -> Mapping[str, str]:
        return command_output.about(await _output(run, "about", "--format", "json"))

    async def models(self, run: RunCommand) -> Sequence[Model]:
        return command_output.models(await _output(run, "models"))

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        return stored_sessions.sessions(config.home(run.variable), cwd)

    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        return list(stored_sessions.history(config.home(run.variable), session))

    async def create_session(self, run: RunCommand, cwd: Path) -> str:
        return command_output.chat(await _output(run, "create-chat"))

    def login(self) -> Sequence[str]:
        return [BINARY, "login"]

    def logout(self) -> Sequence[str]:
        return [BINARY, "logout"]

    async def mcp_servers(self, run: RunCommand) -> Sequence[McpServer]:
        return command_output.mcp_servers(
            await _output(run, "mcp", "list", limit=60)
        )  # it connects to each

    async def mcp_tools(self, run: RunCommand, name: str) -> Sequence[McpTool]:
        return command_output.mcp_tools(await _output(run, "mcp", "list-tools", name, limit=60))

    async def mcp_switch(self, run: RunCommand, name: str, on: bool) -> None:
        await _output(run, "mcp", "enable" if on else "disable", name)

    async def mcp_add(self, run: RunCommand, name: str, config: Mapping[str, Any]) -> None:
        """Adds a server to the user's file, since no command does it."""
        server = {key: value for key, value in config.items() if key != "type" and value}
        self._edit(run, lambda own: _with_servers(own, {**table(own, "mcpServers"), name: server}))

    async def mcp_remove(self, run: RunCommand, name: str) -> None:
        self._edit(run, lambda own: mcp_settings_file.removed(INFO.name, own, name))

    def _edit(self, run: RunCommand, change: Callable[[Table], Table]) -> None:
        file = Path(run.variable("HOME") or Path.home()) / ".cursor" / "mcp.json"
        mcp_settings_file.edit(INFO.name, file, change)


def _program(spec: SessionSpec) -> str:
    return str(spec.native.options.get("binary") or BINARY)


def _with_servers(own: Table, servers: Table) -> Table:
    return {**own, "mcpServers": servers}


async def _output(run: RunCommand, *words: str, limit: float = 20) -> bytes:
    try:
        return await locate.output(run, INFO, words, limit=limit)
    except AgentError as error:
        if "Authentication required" in error.message:
            error.hint = SIGN_IN
        raise


agent = Cursor()
