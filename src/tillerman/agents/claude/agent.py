"""Agent class for Claude Code: installation, account, models, stored sessions, MCP servers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.agents.claude.launch import launch
from tillerman.agents.commands import locate
from tillerman.agents.decoding.fields import Table, parse, strings, table, tables, text
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.agent import AgentInfo, SessionSpec, StartFiles
from tillerman.core.agent_admin import (
    Account,
    Dialog,
    Installed,
    McpServer,
    McpTool,
    Model,
    NativeSession,
    RunCommand,
)
from tillerman.core.errors import AgentError
from tillerman.core.session_options import session_spec
from tillerman.core.wire import Launch, Wire

if TYPE_CHECKING:
    from tillerman.core.events import Event

_CAN = frozenset(
    {"streaming", "thinking", "resume", "fork", "steer", "cancel", "permissions", "questions",
     "modes", "model", "effort", "images", "mcp", "system", "folders", "schema", "subagents",
     "background", "usage", "cost", "limits", "tools", "changed_input", "retries"}
)  # fmt: skip
INFO = AgentInfo(
    name="claude",
    title="Claude Code",
    can=_CAN,
    efforts=("low", "medium", "high", "xhigh", "max"),
    binary="claude",
    install="npm install -g @anthropic-ai/claude-code",
    tested=("2.1.197", "2.1.325"),
    asks=frozenset({"read", "write", "shell", "network", "mcp"}),
    variables=(
        "ANTHROPIC_*",
        "CLAUDE_CONFIG_DIR",
        "CLAUDE_CODE_OAUTH_TOKEN",
        "CLAUDE_CODE_USE_*",
        "CLAUDE_CODE_SKIP_*",
        "CLAUDE_CODE_MAX_*",
        "CLAUDE_CODE_DISABLE_*",
        "AWS_*",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "CLOUD_ML_REGION",
        "VERTEX_REGION_*",
    ),
    start_files=StartFiles(
        (
            ".claude.json#mcpServers",
            ".claude/.claude.json#mcpServers",  # the same file, if the folder is moved
            ".claude/.credentials.json",
            ".claude/CLAUDE.md",
            ".claude/agents",
            ".claude/commands",
            ".claude/output-styles",
            ".claude/plugins/installed_plugins.json",
            ".claude/rules",
            ".claude/settings.json",
            ".claude/skills",
            ".gitconfig",
            "/etc/claude-code",
        ),
        moved=("CLAUDE_CONFIG_DIR", ".claude"),
    ),
)

_SERVER = re.compile(r"(?P<name>[^:]+): (?P<command>.*) - \W* ?(?P<status>\w[^—]*\w)( — .*)?$")
_OFFLINE = 40.0  # seconds; it answers half a minute late if it cannot reach its API
_HELLO = {"subtype": "initialize", "hooks": None}
_ABOUT = {
    "subscriptionType": "plan",
    "organization": "organization",
    "apiProvider": "provider",
    "apiKeySource": "key",
}


def _wire(spec: SessionSpec) -> Wire:
    from tillerman.agents.claude.wire import ClaudeWire  # not before the program starts

    return ClaudeWire(spec)


class ClaudeCode(StdioAgent):
    def __init__(self) -> None:
        super().__init__(INFO, _wire)

    def program(self, spec: SessionSpec) -> Launch:
        return launch(spec)

    async def installed(self, run: RunCommand) -> Installed:
        return await locate.installed(run, INFO)

    async def account(self, run: RunCommand) -> Account:
        return account((await run([locate.binary(run, INFO), "auth", "status"])).stdout)

    async def about(self, run: RunCommand) -> Mapping[str, str]:
        [hello] = await _query(run, _HELLO)
        parsed = table(hello, "account")
        return {
            ours: message for theirs, ours in _ABOUT.items() if (message := text(parsed, theirs))
        }

    async def models(self, run: RunCommand) -> Sequence[Model]:
        """Lists models from the response to `initialize`, since no command lists them."""
        [hello] = await _query(run, _HELLO)
        return models(hello)

    async def native_sessions(self, run: RunCommand, cwd: Path) -> Sequence[NativeSession]:
        from tillerman.agents.claude import stored_sessions

        files = stored_sessions.folder_of(_home(run), cwd).glob("*.jsonl")
        found = [session for file in files if (session := stored_sessions.session(file, cwd))]
        return sorted(found, key=lambda each: each.updated, reverse=True)

    async def native_history(self, run: RunCommand, session: NativeSession) -> Sequence[Event]:
        from tillerman.agents.claude import stored_sessions

        cwd = Path(session.cwd or "")
        file = stored_sessions.folder_of(_home(run), cwd) / f"{session.native_id}.jsonl"
        with file.open("rb") as lines:
            return list(stored_sessions.history(lines, str(cwd)))

    def login(self) -> Sequence[str]:
        return ["claude", "auth", "login"]

    def logout(self) -> Sequence[str]:
        return ["claude", "auth", "logout"]

    async def mcp_servers(self, run: RunCommand) -> Sequence[McpServer]:
        words = ["mcp", "list"]
        return mcp_servers(await locate.output(run, INFO, words, limit=60))  # it connects to each

    async def mcp_tools(self, run: RunCommand, name: str) -> Sequence[McpTool]:
        """Connects to the server first: otherwise its tools might not be known yet."""
        connect = {"subtype": "mcp_reconnect", "serverName": name}
        *_, status = await _query(run, _HELLO, connect, {"subtype": "mcp_status"})
        return mcp_tools(status, name)

    async def mcp_add(self, run: RunCommand, name: str, config: Mapping[str, Any]) -> None:
        words = ["mcp", "add-json", "--scope=user", "--", name, json.dumps(dict(config))]
        await locate.output(run, INFO, words)

    async def mcp_remove(self, run: RunCommand, name: str) -> None:
        await locate.output(run, INFO, ["mcp", "remove", "--", name])


async def _query(run: RunCommand, *requests: Table) -> list[Table]:
    argv = [locate.binary(run, INFO), *launch(session_spec(cwd=Path())).argv[1:]]
    return await run.dialog(argv, asked(*requests), limit=_OFFLINE)


def _home(run: RunCommand) -> Path:
    home = run.variable("HOME") or Path.home()
    return Path(run.variable("CLAUDE_CONFIG_DIR") or Path(home, ".claude"))


def asked(*requests: Table) -> Dialog[list[Table]]:
    """Sends control requests one after the other and returns the responses."""
    answers: list[Table] = []
    for request in requests:
        message = {"type": "control_request", "request_id": "tillerman", "request": request}
        line = yield json.dumps(message).encode() + b"\n"
        while (answer := _answer(line)) is None:
            line = yield b""
        if why := text(answer, "error"):
            raise AgentError(
                "claude",
                f"claude refused {text(request, 'subtype')!r}: {why}",
                hint="an older claude may not know it: update claude",
            )
        answers.append(table(answer, "response"))
    return answers


def _answer(line: bytes) -> Table | None:
    parsed = parse(line)
    if isinstance(parsed, str) or text(parsed, "type") != "control_response":
        return None
    return table(parsed, "response")


def account(stdout: bytes) -> Account:
    """Parses `claude auth status`, which exits with 1 and prints on stdout if not signed in."""
    parsed = parse(stdout)
    if isinstance(parsed, str):
        raise AgentError(
            "claude",
            f"cannot parse the output of `claude auth status`: {parsed}",
            hint="update claude and tillerman: the format may be that of another version",
        )
    if parsed.get("loggedIn") is not True:
        hint = "run `claude auth login` or set ANTHROPIC_API_KEY"
        return Account(signed_in=False, hint=hint)
    source, method = text(parsed, "apiKeySource"), text(parsed, "authMethod")
    if source.isupper():
        method = "variable"
    elif "token" in method:
        method = "token"
    elif method in ("api_key", "api_key_helper"):
        method = "api key"
    elif method:
        method = "browser"
    who = text(parsed, "email") or text(parsed, "orgName") or (source if source.isupper() else "")
    return Account(signed_in=True, method=method or None, who=who or None)


def models(hello: Table) -> list[Model]:
    """The models in the response to `initialize`."""
    if listed := tables(hello, "models"):
        return [_model(model) for model in listed]
    raise AgentError("claude", "claude listed no models", hint="run `tillerman doctor`")


def mcp_servers(stdout: bytes) -> list[McpServer]:
    """Parses `claude mcp list`: `name: command - ✔ Connected`, or `✘ Failed to connect — why`."""
    found = map(_SERVER.match, stdout.decode("utf-8", "replace").splitlines())
    return [
        McpServer(match["name"], match["status"].lower(), match["command"])
        for match in found
        if match
    ]


def mcp_tools(status: Table, name: str) -> list[McpTool]:
    """The tools in the response to `mcp_status`; raises if the server is not connected."""
    for server in tables(status, "mcpServers"):
        if text(server, "name") == name:
            if (state := text(server, "status")) != "connected":
                raise AgentError(
                    "claude",
                    f"the MCP server {name!r} is {state or 'missing'}",
                    hint="`tillerman mcp list -a claude` shows the state of its servers",
                )
            return [
                McpTool(text(tool, "name"), text(tool, "description"))
                for tool in tables(server, "tools")
            ]
    raise AgentError("claude", f"claude has no MCP server {name!r}", hint="`tillerman mcp list`")


def _model(model: Table) -> Model:
    value = text(model, "value")
    resolved = text(model, "resolvedModel")
    return Model(
        id=value,
        title=text(model, "displayName") or value,
        provider="anthropic",
        default=value == "default",
        thinking=model.get("supportsAdaptiveThinking") is True,
        efforts=tuple(strings(model, "supportedEffortLevels")),
        context=1_000_000 if resolved.endswith("[1m]") else None,
    )


agent = ClaudeCode()
