"""Parses the output of Copilot's native commands: models and MCP servers."""

from __future__ import annotations

import re

from tillerman.agents.commands.locate import plain
from tillerman.agents.decoding.fields import Table, parse, strings, table, text
from tillerman.core.agent_admin import McpServer, Model
from tillerman.core.errors import AgentError

_LISTED = re.compile(r"^  `model`:.*\n((?:    - .*\n)+)", re.M)
_PROVIDERS = {"claude": "anthropic", "gpt": "openai", "gemini": "google", "grok": "xai"}


def models(stdout: bytes) -> list[Model]:
    """Parses `copilot help config`, which lists models under the setting `model`."""
    found = _LISTED.search(plain(stdout))
    ids = re.findall(r'^    - "([^"]+)"', found[1], re.M) if found else []
    if not ids:
        raise AgentError("copilot", "copilot listed no models", hint="run `tillerman doctor`")
    return [Model(id, id, _PROVIDERS.get(id.partition("-")[0])) for id in ids]


def servers(stdout: bytes) -> list[McpServer]:
    """Parses `copilot mcp list --json`: configured servers, without connecting to them."""
    fields = parse(stdout)
    if isinstance(fields, str):
        raise AgentError(
            "copilot",
            f"cannot parse the output of `copilot mcp list`: {fields}",
            hint="update copilot and tillerman: the format may be that of another version",
        )
    found = table(fields, "mcpServers")
    return [_server(name, table(found, name)) for name in found]


def _server(name: str, server: Table) -> McpServer:
    command = text(server, "url") or " ".join([text(server, "command"), *strings(server, "args")])
    on = server.get("enabled") is not False
    return McpServer(name, "enabled" if on else "disabled", command.strip())
