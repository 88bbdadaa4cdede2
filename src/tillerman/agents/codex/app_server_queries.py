"""Sends single queries to a Codex app-server that runs only until the answer."""

from __future__ import annotations

import json
from collections.abc import Generator
from typing import Any

from tillerman.agents.codex.launch import greeting
from tillerman.agents.decoding.fields import Table, parse, table, tables, text
from tillerman.core.errors import AgentError

Asking = Generator[bytes, bytes, Table]  # yields bytes to send, receives lines, returns the result

SOURCES = ["cli", "vscode", "exec", "appServer"]  # by default sessions of exec are left out


def ask(method: str, params: Table) -> Asking:
    """Sends one request."""
    requests = _encoded({"id": 0, "method": "initialize", "params": greeting()})
    requests += _encoded({"method": "initialized"})
    answer = yield from _answer(1, method, params, requests)
    return answer


def pages(method: str, params: Table) -> Generator[bytes, bytes, list[Table]]:
    """Requests all pages of a list."""
    requests = _encoded({"id": 0, "method": "initialize", "params": greeting()})
    requests += _encoded({"method": "initialized"})
    found: list[Table] = []
    cursor: str | None = None
    for number in range(1, 1000):
        more = {**params, "cursor": cursor} if cursor else params
        answer = yield from _answer(number, method, more, requests)
        found += tables(answer, "data")
        cursor, requests = text(answer, "nextCursor"), b""
        if not cursor:
            break
    return found


def _answer(id: int, method: str, params: Table, before: bytes) -> Asking:
    line = yield before + _encoded({"id": id, "method": method, "params": params})
    while True:
        message = parse(line)
        if isinstance(message, dict) and message.get("id") == id and "method" not in message:
            break
        line = yield b""
    if error := table(message, "error"):
        raise AgentError(
            "codex",
            f"codex refused {method}: {text(error, 'message')}",
            hint="an older codex may not know it: update codex",
        )
    return table(message, "result")


def _encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
