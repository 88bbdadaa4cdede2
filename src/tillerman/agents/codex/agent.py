"""Agent classes for Codex: installation, account, models, stored sessions, MCP servers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tillerman.agents.codex import command_output
from tillerman.agents.codex.launch import launch
from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.agents.stdio.capability_check import refuse_unsupported
from tillerman.core.agent import AgentInfo, Conversation, Host, SessionSpec, StartFiles
from tillerman.core.agent_admin import (
    Account,
    CommandResult,
    Installed,
    McpServer,
    McpTool,
    Model,
    NativeSession,
    RunCommand,
)
from tillerman.core.errors import AgentError, AgentNotInstalled
from tillerman.core.wire import Launch, Wire

if TYPE_CHECKING:
    from tillerman.core.events import Event

_CAN = frozenset(
    {"streaming", "thinking", "resume", "fork", "steer", "cancel", "permissions", "questions",
     "modes", "model", "effort", "images", "mcp", "system", "folders", "schema", "subagents",
     "usage", "sandbox", "changed_input", "retries"}
)  # fmt: skip
_EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max", "ultra")
INFO = AgentInfo(
    name="codex",
    title="Codex",
    can=_CAN,
    efforts=_EFFORTS,
    binary="codex",
    install="npm install -g @openai/codex",
    variables=("OPENAI_*", "CODEX_*"),
    tested=("0.166.0", "0.166.0"),
    asks=frozenset({"read", "write", "shell", "mcp"}),
    start_files=StartFiles(
        (
            ".codex/AGENTS.md",
            ".codex/AGENTS.override.md",
            ".codex/auth.json",
            ".codex/config.toml",
            ".codex/hooks.json",
            ".codex/prompts",
            ".codex/rules",
            ".codex/skills",
            ".gitconfig",
            "/etc/codex",
        ),
        moved=("CODEX_HOME", ".codex"),
    ),
)
EXEC_INFO = AgentInfo(
    name="codex-exec",
    title="Codex (exec)",
    can=frozenset(
        {"thinking", "resume", "fork", "cancel", "model", "effort", "system", "folders", "schema",
         "usage", "sandbox", "retries"}
    ),
    efforts=_EFFORTS,
    binary=INFO.binary,
    install=INFO.install,
    variables=INFO.variables,
    tested=INFO.tested,
)  # fmt: skip

_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")
_SERVER_NAME = re.compile(r"[A-Za-z0-9_:@/.-]+")
_MOST_SESSIONS = 100


def _wire(spec: SessionSpec) -> Wire:
    from tillerman.agents.codex.wire import CodexWire  # not before the program starts

    return CodexWire(spec)


def _exec_wire(spec: SessionSpec) -> Wire:
    from tillerman.agents.codex.exec.exec_wire import CodexExecWire

    return CodexExecWire(spec)


_UNHOOKED = StdioAgent(
    replace(INFO, can=_CAN - {"changed_input"}, asks=frozenset({"write"})), _wire
)


class _Program(StdioAgent):
    """Queries by the command line, common to both transports."""

    async def installed(self, run: RunCommand) -> Installed:
        path = run.find("codex")
        version = None
        if path:
            message = (await run([path, "--version"])).stdout.decode("utf-8", "replace")
            found = _VERSION.search(message)
            version = found[0] if found else None
        return Installed("codex", path, version, INFO.install)

    async def models(self, run: RunCommand) -> Sequence[Model]:
        ran = await run([_binary(run), "debug", "models"])
        return command_output.models(_checked(ran, "debug models"))

    def login(self) -> Sequence[str]:
        return ["codex", "login"]

    def logout(self) -> Sequence[str]:
        return ["codex", "logout"]

    async def mcp_servers(self, run: RunCommand) -> Sequence[McpServer]:
        ran = await run([_binary(run), "mcp", "list", "--json"])
        return command_output.mcp_servers(_checked(ran, "mcp list"))


class CodexAgent(_Program):
    def __init__(self) -> None:
        super().__init__(INFO, _wire)

    def program(self, spec: SessionSpec) -> Launch:
        return launch(spec)

    async def open(self, spec: SessionSpec, host: Host) -> Conversation:
        """With `[agents.codex] hooks = false` only Codex's own approvals are decided here."""
        from tillerman.agents.codex import hook_requests
        from tillerman.agents.codex.wire import CodexWire
        from tillerman.agents.stdio.hooked_conversation import HookedConversation
        from tillerman.hooks.server import timeout_for

        if spec.native.options.get("hooks") is False:
            return await _UNHOOKED.open(spec, host)
        refuse_unsupported(self.info, spec)
        wire = CodexWire(spec)
        talk = HookedConversation(self.info, wire, spec, host, self._grace, asks_between_turns=True)
        hooks, seconds = await talk.listen(), timeout_for(host.request_timeout)
        wire.hook(hooks.command("codex", hook_requests.EVENT, timeout=seconds), seconds)
        await talk.start()
        return talk

    async def account(self, run: RunCommand) -> Account:
        return command_output.account(await self._ask(run, "account/read", {}))

    async def about(self, run: RunCommand) -> Mapping[str, str]:
        config = table(await self._ask(run, "config/read", {}), "config")
        who = table(await self._ask(run, "account/read", {}), "account")
        fields = {
            "plan": text(who, "planType"),
            "workspace": text(who, "workspaceName"),
            "provider": text(config, "model_provider"),
            "model": text(config, "model"),
        }
        return {name: value for name, value in fields.items() if value}

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        from tillerman.agents.codex.app_server_queries import SOURCES

        params = {"cwd": str(cwd.resolve()), "limit": _MOST_SESSIONS, "sourceKinds": SOURCES}
        answer = await self._ask(run, "thread/list", params)
        return [command_output.session(thread) for thread in tables(answer, "data")]

    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        from tillerman.agents.codex import stored_sessions
        from tillerman.agents.codex.app_server_queries import pages

        params = {"threadId": session.native_id, "itemsView": "full", "sortDirection": "asc"}
        turns = await run.dialog(_server(run), pages("thread/turns/list", params))
        return stored_sessions.events(turns, session.cwd)

    async def mcp_tools(self, run: RunCommand, name: str) -> Sequence[McpTool]:
        answer = await self._ask(run, "mcpServerStatus/list", {"serverName": name}, limit=60)
        return command_output.mcp_tools(answer, name)

    async def mcp_add(self, run: RunCommand, name: str, config: Mapping[str, Any]) -> None:
        from tillerman.agents.codex.launch import server

        value = server(dict(config))
        del value["default_tools_approval_mode"]  # chosen by the user
        await self._write(run, f"mcp_servers.{_key(name)}", value)

    async def mcp_remove(self, run: RunCommand, name: str) -> None:
        await self._known(run, name)
        await self._write(run, f"mcp_servers.{_key(name)}", None)

    async def mcp_switch(self, run: RunCommand, name: str, on: bool) -> None:
        await self._known(run, name)
        await self._write(run, f"mcp_servers.{_key(name)}.enabled", on)

    async def _known(self, run: RunCommand, name: str) -> None:
        names = [server.name for server in await self.mcp_servers(run)]
        if name not in names:
            hint = f"there are: {', '.join(names)}" if names else "there are none"
            raise AgentError("codex", f"codex has no MCP server {name!r}", hint=hint)

    async def _write(self, run: RunCommand, key: str, value: Any) -> None:
        """Writes a config value over the app-server's stdin: arguments would expose secrets."""
        params = {"keyPath": key, "value": value, "mergeStrategy": "replace"}
        await self._ask(run, "config/value/write", params)

    async def _ask(self, run: RunCommand, method: str, params: Table, limit: float = 20) -> Table:
        from tillerman.agents.codex.app_server_queries import ask

        return await run.dialog(_server(run), ask(method, params), limit=limit)


class CodexExec(_Program):
    """Selected by name, not by version: a version check would slow down every start."""

    def __init__(self) -> None:
        super().__init__(EXEC_INFO, _exec_wire)

    async def account(self, run: RunCommand) -> Account:
        ran = await run([_binary(run), "login", "status"])
        return command_output.login_status(
            ran.exit.clean, (ran.stderr + ran.stdout).decode("utf-8", "replace")
        )


def _key(name: str) -> str:
    if not _SERVER_NAME.fullmatch(name):
        hint = "use only letters, digits and _ : @ / . -"
        raise AgentError("codex", f"codex does not accept an MCP server named {name!r}", hint=hint)
    return f'"{name}"'


def _server(run: RunCommand) -> list[str]:
    return [_binary(run), "app-server"]


def _binary(run: RunCommand) -> str:
    path = run.find("codex")
    if path is None:
        raise AgentNotInstalled("codex", binary="codex", hint=INFO.install)
    return path


def _checked(ran: CommandResult, what: str) -> bytes:
    if not ran.exit.clean:
        message = (ran.stderr or ran.stdout).decode("utf-8", "replace").strip()
        raise AgentError(
            "codex",
            f"`codex {what}` failed: {message[-500:]}",
            hint="run it in a terminal to see why",
        )
    return ran.stdout


agent = CodexAgent()
exec_agent = CodexExec()
