"""Which values in the configuration of MCP servers are secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tillerman.supervision.environment import is_credential, secrets_of

_PLAIN_HEADERS = ("accept", "content-type", "user-agent", "host", "origin", "mcp-protocol-version")
_REFERENCE = re.compile(r"\$\{[^}]*\}")  # the agent puts a variable of its own in its place
_OPTION = re.compile(r"--?([A-Za-z][\w-]*)=(.+)", re.DOTALL)


def secrets_of_servers(servers: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Name and value: what is handed to a server by hand is a secret until it looks harmless."""
    found = [pair for server in servers.values() for pair in _of_one(server)]
    return [(name, value) for name, value in found if value and not _REFERENCE.fullmatch(value)]


def _of_one(server: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in _texts(server.get("env")):
        # A folder's name stands in half of what an agent says.
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
    """Whatever the user wrote: nobody has checked it before the agent does."""
    if isinstance(table, Mapping):
        yield from ((str(name), value) for name, value in table.items() if isinstance(value, str))
