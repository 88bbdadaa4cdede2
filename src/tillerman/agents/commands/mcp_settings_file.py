"""Lists, adds and removes MCP servers in an agent's JSON settings file (`mcpServers`).

Servers are added and removed in the JSON file itself: a command line would expose secrets to every
user, and some versions report a removal that they did not perform. The rest of the file is
unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tillerman.agents.decoding.fields import Table
from tillerman.core.agent_admin import McpServer
from tillerman.core.errors import AgentError
from tillerman.paths import write_whole

_SERVER = re.compile(r"\W*(?P<name>[^:]+): (?P<command>.*) \(\w+\) - (?P<status>.+)$")


def listed(message: str) -> list[McpServer]:
    """Parses lines such as `✓ name: command (stdio) - Connected`, without colours."""
    found = map(_SERVER.match, message.splitlines())
    return [
        McpServer(match["name"], match["status"].strip().lower(), match["command"].strip())
        for match in found
        if match
    ]


def added(settings: Table, name: str, config: Mapping[str, Any]) -> Table:
    """Returns the settings with this server added; all forks read `httpUrl`."""
    server = {key: value for key, value in config.items() if key not in ("type", "url") and value}
    if url := config.get("url"):
        server["url" if config.get("type") == "sse" else "httpUrl"] = url
    return {**settings, "mcpServers": {**_servers(settings), name: server}}


def removed(agent: str, settings: Table, name: str) -> Table:
    servers = _servers(settings)
    if name not in servers:
        raise AgentError(
            agent,
            f"{agent} has no MCP server {name!r} in the user's settings",
            hint=f"it has: {', '.join(servers) or 'none'}",
        )
    return {**settings, "mcpServers": {key: servers[key] for key in servers if key != name}}


def edit(agent: str, path: Path, change: Callable[[Table], Table]) -> None:
    """Rewrites the JSON object in the file atomically and keeps the file mode."""
    try:
        before = path.read_bytes() if path.exists() else b"{}"
        settings = json.loads(before or b"{}")
    except ValueError as error:
        raise AgentError(
            agent,
            f"{path} is not plain JSON; rewriting it would lose its comments: {error}",
            hint="change its mcpServers by hand",
        ) from None
    if not isinstance(settings, dict):
        raise AgentError(agent, f"{path} does not contain a JSON object", hint="fix it by hand")
    after = json.dumps(change(settings), indent=2, ensure_ascii=False).encode()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    target = path.resolve()  # keeps a symbolic link
    write_whole(target, after, mode=mode)


def _servers(settings: Table) -> Table:
    servers = settings.get("mcpServers")
    return servers if isinstance(servers, dict) else {}
