"""A call of an MCP server's tool, as the stand-in for Cursor makes it: one process for one call."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "stand-in", "version": "0"},
}


def call(server: dict[str, Any], tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The result, as the stream reports it."""
    argv = [server["command"], *server.get("args", [])]
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        },
    ]
    with subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **server.get("env", {})},
    ) as process:
        assert process.stdin
        assert process.stdout
        for request in requests:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline()) if "id" in request else {}
    if "error" in answer:
        return {"error": {"error": answer["error"]["message"]}}
    result = answer["result"]
    content = [{"text": {"text": part["text"]}} for part in result["content"]]
    failed = result.get("isError", False)
    return {"success": {"content": content, "isError": failed, "systemReminders": []}}
