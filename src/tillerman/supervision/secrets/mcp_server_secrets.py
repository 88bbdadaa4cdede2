"""Finds secret values in the configuration of MCP servers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tillerman.supervision.environment import is_credential, secrets_of

_PLAIN_HEADERS = ("accept", "content-type", "user-agent", "host", "origin", "mcp-protocol-version")
_REFERENCE = re.compile(r"\$\{[^}]*\}")  # the agent substitutes a variable of its own
_OPTION = re.compile(r"--?([A-Za-z][\w-]*)=(.+)", re.DOTALL)


def secrets_of_servers(servers: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns names and values. Any configured value is a secret unless it looks harmless."""
    found = [pair for server in servers.values() for pair in _of_one(server)]
    return [(name, value) for name, value in found if value and not _REFERENCE.fullmatch(value)]


def _of_one(server: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in _texts(server.get("env")):
        # Paths are not secrets: they occur in most of an agent's output.
        if is_credential(name) or not value.startswith(("/", "~", ".")):
            yield name, value
        yield from secrets_of({name: value})
    for name, value in _texts(server.get("headers")):
        if not name.lower().startswith(_PLAIN_HEADERS):
            yield name, value.split()[-1] if value.split() else ""  # after `Bearer` or `Basic`
    yield from secrets_of({"url": str(server.get("url") or "")})
    args = server.get("args")
    for word in map(str, args if isinstance(args, list | tuple) else ()):
        yield from secrets_of({"args": word})
        if (option := _OPTION.fullmatch(word)) and is_credential(option[1].replace("-", "_")):
            yield option[1], option[2]


def _texts(table: Any) -> Iterator[tuple[str, str]]:
    """Yields only the text values: the user's configuration is not validated before this."""
    if isinstance(table, Mapping):
        yield from ((str(name), value) for name, value in table.items() if isinstance(value, str))
