"""Client of the MCP servers that the mock agent is given: starts one, and calls its tools."""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from typing import Any

VERSION = "2025-06-18"


class McpClient:
    """The servers by name; `wait` returns when its file is readable."""

    def __init__(self, servers: dict[str, dict[str, Any]]) -> None:
        self._servers = servers
        self._running: dict[str, _Server] = {}

    def call(
        self, name: str, arguments: dict[str, Any], wait: Callable[[int], None]
    ) -> tuple[bool, str]:
        """Calls `SERVER.TOOL`; returns whether it succeeded, and the text of its result."""
        server, _, tool = name.partition(".")
        if server not in self._servers:
            raise ValueError(f"there is no MCP server {server!r}")
        if server not in self._running:
            self._running[server] = _Server(server, self._servers[server], wait)
        result = self._running[server].request(
            "tools/call", {"name": tool, "arguments": arguments}, wait
        )
        texts = [part["text"] for part in result.get("content", ()) if part.get("type") == "text"]
        return not result.get("isError"), "\n".join(texts)


class _Server:
    def __init__(self, name: str, config: dict[str, Any], wait: Callable[[int], None]) -> None:
        self._name = name
        self._process = _start(config)
        self._rest = b""
        self._ids = 0
        info = {"name": "mock", "version": "1"}
        hello = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": info}
        self.request("initialize", hello, wait)
        self._send({"method": "notifications/initialized"})

    def request(
        self, method: str, params: dict[str, Any], wait: Callable[[int], None]
    ) -> dict[str, Any]:
        self._ids += 1
        self._send({"id": self._ids, "method": method, "params": params})
        while True:
            message = self._receive(wait)
            if message.get("id") != self._ids:
                continue
            if "error" in message:
                raise ValueError(f"{self._name}: {message['error'].get('message')}")
            result: dict[str, Any] = message["result"]
            return result

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _receive(self, wait: Callable[[int], None]) -> dict[str, Any]:
        assert self._process.stdout
        fd = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            wait(fd)
            if not (data := os.read(fd, 1 << 16)):
                raise ValueError(f"the MCP server {self._name!r} ended")
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


def _start(config: dict[str, Any]) -> subprocess.Popen[bytes]:
    import subprocess

    if "command" not in config:
        raise ValueError("the mock can only start MCP servers that have a `command`")
    return subprocess.Popen(
        [config["command"], *config.get("args", ())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **config.get("env", {})},
    )
