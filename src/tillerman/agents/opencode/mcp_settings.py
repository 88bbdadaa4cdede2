"""Adds, removes and switches MCP servers in the user's OpenCode config file.

The native command to add one exposes secrets in its arguments, and there is none to remove or
disable one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tillerman.agents.commands.mcp_settings_file import edit
from tillerman.agents.decoding.fields import Table, table
from tillerman.agents.opencode.config import server
from tillerman.core.errors import AgentError

_FILES = ("opencode.jsonc", "opencode.json", "config.json")  # in order of precedence

Variable = Callable[[str], str | None]


def add(variable: Variable, name: str, config: Mapping[str, Any]) -> None:
    edit("opencode", _file(variable), lambda settings: _with(settings, name, server(config)))


def remove(variable: Variable, name: str) -> None:
    def without(settings: Table) -> Table:
        servers = _servers(settings, name)
        return {**settings, "mcp": {key: servers[key] for key in servers if key != name}}

    edit("opencode", _file(variable), without)


def switch(variable: Variable, name: str, on: bool) -> None:
    def switched(settings: Table) -> Table:
        one = table(_servers(settings, name), name)
        return _with(settings, name, {**one, "enabled": on})

    edit("opencode", _file(variable), switched)


def _file(variable: Variable) -> Path:
    """The file that OpenCode itself would add to."""
    home = variable("XDG_CONFIG_HOME")
    folder = Path(home) if home else Path(variable("HOME") or Path.home()) / ".config"
    found = (folder / "opencode" / name for name in _FILES)
    return next(filter(Path.exists, found), folder / "opencode" / _FILES[0])


def _with(settings: Table, name: str, server: Table) -> Table:
    return {**settings, "mcp": {**table(settings, "mcp"), name: server}}


def _servers(settings: Table, name: str) -> Table:
    servers = table(settings, "mcp")
    if name not in servers:
        raise AgentError(
            "opencode",
            f"opencode has no MCP server {name!r} in the user's config",
            hint=f"it has: {', '.join(servers) or 'none'}",
        )
    return servers
