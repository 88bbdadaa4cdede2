"""Minimal MCP client on pipes, the same for every measured server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

VERSION = "2025-06-18"


class Client:
    """Waits for each answer before the next request."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._process = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self._process.stdin and self._process.stdout
        self._to = self._process.stdin
        self._from = open(self._process.stdout.fileno(), "rb", closefd=False)  # noqa: SIM115
        self._asked = 0
        self.pid = self._process.pid
        self._request(
            "initialize",
            {
                "protocolVersion": VERSION,
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        )
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The result of a tool; an error ends the benchmark."""
        result = self._request("tools/call", {"name": tool, "arguments": arguments})
        if result.get("isError"):
            raise SystemExit(f"{tool} {arguments}: {json.dumps(result)[:1000]}")
        return result

    def tools(self) -> set[str]:
        return {tool["name"] for tool in self._request("tools/list", {})["tools"]}

    def close(self) -> None:
        self._to.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._from.close()

    def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        while line := self._from.readline():
            answer = json.loads(line)
            if answer.get("id") == self._asked and "method" not in answer:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                found: dict[str, Any] = answer["result"]
                return found
        raise SystemExit(f"{method}: the server ended with {self._process.wait()}")

    def _send(self, message: Mapping[str, Any]) -> None:
        self._to.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
