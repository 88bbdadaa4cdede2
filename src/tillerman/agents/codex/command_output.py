"""Parses Codex's accounts, models, MCP servers and stored threads."""

from __future__ import annotations

from datetime import UTC, datetime

from tillerman.agents.decoding.fields import Table, count, parse, table, tables, text
from tillerman.core.agent_admin import Account, McpServer, McpTool, Model, NativeSession
from tillerman.core.errors import AgentError
from tillerman.core.timestamps import rfc3339

SIGN_IN = "run `codex login`, or pass a key to `codex login --with-api-key`"


def account(answer: Table) -> Account:
    """Parses `account/read`. A custom provider needs no account: its key is elsewhere."""
    who = table(answer, "account")
    match text(who, "type"):
        case "":
            if answer.get("requiresOpenaiAuth") is False:
                return Account(signed_in=True, method="variable")
            return Account(signed_in=False, hint=SIGN_IN)
        case "chatgpt":
            return Account(signed_in=True, method="browser", who=text(who, "email") or None)
        case "apiKey":
            return Account(signed_in=True, method="api key")
        case kind:
            return Account(signed_in=True, method=kind)


def login_status(clean: bool, message: str) -> Account:
    """Parses `codex login status`, which prints on stderr and knows only OpenAI accounts."""
    if not clean:
        return Account(signed_in=False, hint=SIGN_IN)
    return Account(signed_in=True, method="api key" if "API key" in message else "browser")


def models(stdout: bytes) -> list[Model]:
    """Parses `codex debug models`; the first by priority is the default."""
    parsed = parse(stdout)
    if isinstance(parsed, str):
        raise AgentError(
            "codex",
            f"cannot parse the output of `codex debug models`: {parsed}",
            hint="update codex and tillerman: the format may be that of another version",
        )
    shown = [model for model in tables(parsed, "models") if text(model, "visibility") == "list"]
    shown.sort(key=lambda model: count(model, "priority"))
    return [_model(model, default=number == 0) for number, model in enumerate(shown)]


def mcp_servers(stdout: bytes) -> list[McpServer]:
    """Parses `codex mcp list --json`."""
    parsed = parse(b'{"servers":' + stdout + b"}")
    if isinstance(parsed, str):
        raise AgentError(
            "codex",
            f"cannot parse the output of `codex mcp list`: {parsed}",
            hint="update codex and tillerman: the format may be that of another version",
        )
    return [_mcp_server(each) for each in tables(parsed, "servers")]


def mcp_tools(answer: Table, name: str) -> list[McpTool]:
    """Parses `mcpServerStatus/list`, which connects to the server."""
    for status in tables(answer, "data"):
        if text(status, "name") != name:
            continue
        if why := text(status, "toolsError"):
            raise AgentError(
                "codex",
                f"MCP server {name!r} returned no tools: {why}",
                hint="check its command or its URL",
            )
        found = table(status, "tools")
        return [
            McpTool(
                name=tool,
                description=text(table(found, tool), "description"),
                arguments=tuple(table(table(table(found, tool), "inputSchema"), "properties")),
            )
            for tool in found
        ]
    raise AgentError(
        "codex",
        f"codex has no MCP server {name!r}",
        hint="`tillerman mcp list -a codex` lists them",
    )


def session(thread: Table) -> NativeSession:
    updated = datetime.fromtimestamp(min(count(thread, "updatedAt"), 2**35), UTC)
    return NativeSession(
        native_id=text(thread, "id"),
        title=text(thread, "name") or _headline(text(thread, "preview")),
        updated=rfc3339(updated, "seconds"),
        cwd=text(thread, "cwd") or None,
    )


def _model(model: Table, *, default: bool) -> Model:
    levels = tables(model, "supported_reasoning_levels")
    slug = text(model, "slug")
    return Model(
        id=slug,
        title=text(model, "display_name") or slug,
        provider="openai",
        default=default,
        thinking=bool(levels),
        efforts=tuple(text(level, "effort") for level in levels),
        context=count(model, "context_window") or None,
    )


def _mcp_server(each: Table) -> McpServer:
    transport = table(each, "transport")
    words = [text(transport, "command"), *map(str, transport.get("args") or ())]
    command = text(transport, "url") or " ".join(filter(None, words))
    status = "enabled" if each.get("enabled") is True else "disabled"
    if status == "enabled" and text(each, "auth_status") == "not_logged_in":
        status = "needs sign-in"
    return McpServer(text(each, "name"), status, command)


def _headline(words: str, limit: int = 80) -> str:
    line = " ".join(words.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
