"""Params of an editor's requests as options of sessions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.core.json_fields import Table, strings, table, tables, text
from tillerman.surfaces.acp.errors import InvalidParams


def required(params: Table, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidParams(f"{name!r} is missing or is not text")
    return value


def folder(params: Table) -> Path:
    path = Path(required(params, "cwd"))
    if not path.is_absolute() or "\0" in str(path):
        raise InvalidParams(f"'cwd' is not an absolute path: {path}")
    return path


def opening_options(params: Table) -> dict[str, Any]:
    """Options from session/new, load, resume and fork; those that are empty are left out."""
    options: dict[str, Any] = {
        "servers": {
            name: server for one in tables(params, "mcpServers") for name, server in [_server(one)]
        },
        "folders": tuple(Path(path) for path in strings(params, "additionalDirectories")),
        "system": _system(table(params, "systemPrompt")),
    }
    return {name: value for name, value in options.items() if value}


def _server(one: Table) -> tuple[str, Table]:
    name = required(one, "name")
    match text(one, "type"):
        case "http" | "sse" as kind:
            url, headers = required(one, "url"), _pairs(one, "headers")
            return name, {"type": kind, "url": url, **({"headers": headers} if headers else {})}
        case "" | "stdio":
            env = _pairs(one, "env")
            server = {"command": required(one, "command"), "args": strings(one, "args")}
            return name, {**server, **({"env": env} if env else {})}
        case kind:
            raise InvalidParams(
                f"MCP server {name!r} has type {kind!r}", hint="stdio, http and sse are supported"
            )


def _pairs(one: Table, key: str) -> dict[str, str]:
    return {text(pair, "name"): text(pair, "value") for pair in tables(one, key)}


def _system(prompt: Table) -> str:
    return "\n\n".join(text(block, "text") for block in tables(prompt, "content"))


def offset(params: Table) -> int:
    """The place that `nextCursor` of an earlier page named."""
    cursor = params.get("cursor")
    if cursor is None:
        return 0
    if not isinstance(cursor, str) or not cursor.isdecimal() or len(cursor) > 9:
        raise InvalidParams(f"unknown cursor: {cursor!r}")
    return int(cursor)
