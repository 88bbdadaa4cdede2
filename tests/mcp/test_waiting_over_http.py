"""A call over HTTP that waits for approval sends keep-alives on its stream."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import Any

import pytest

from tests.mcp.http_desk import HELLO, client, opened, shut
from tests.mcp.mcp_desk import Machine
from tests.mcp.pairs_desk import waiting

pytestmark = pytest.mark.timeout(120)

SERVE = ("mcp", "serve", "--http", "0", "--approve", "ask", "--request-timeout", "60")
CALL = {"name": "execute_shell", "arguments": {"command": "touch made"}}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_client_over_http_learns_that_its_call_waits(machine: Machine, mode: str) -> None:
    door = opened(machine.start(*SERVE, stdin=False))
    received: list[str | None] = []
    reported = asyncio.Event()

    async def progress(seconds: float, total: float | None, message: str | None) -> None:
        received.append(message)
        reported.set()

    async with client(door, mode) as made:
        call = asyncio.ensure_future(
            made.call_tool("execute_shell", {"command": "touch made"}, progress_callback=progress)
        )
        request = await asyncio.to_thread(waiting, machine)
        async with asyncio.timeout(30):
            await reported.wait()
        words = ("requests", "answer", request["request_id"], "allow")
        assert (await asyncio.to_thread(machine.run, *words)).returncode == 0
        result: Any = await call
        assert not result.is_error
    assert received[0] and "needs approval" in received[0]
    shut(door)


@pytest.mark.torture
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
def test_an_idle_stream_is_kept_open(machine: Machine, era: str) -> None:
    door = opened(machine.start(*SERVE, stdin=False))
    more: dict[str, str | None] = {"Mcp_Protocol_Version": era}
    params: dict[str, Any] = dict(CALL)
    if era == "2025-11-25":
        more["Mcp_Session_Id"] = door.knock("POST", "/mcp", door.headers(), HELLO)[1][
            "mcp-session-id"
        ]
    else:
        more |= {"Mcp_Method": "tools/call", "Mcp_Name": "execute_shell"}
        prefix = "io.modelcontextprotocol"
        params["_meta"] = {
            f"{prefix}/protocolVersion": era,
            f"{prefix}/clientCapabilities": {},
            f"{prefix}/clientInfo": {"name": "by hand", "version": "1"},
        }
    request = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
    body = json.dumps(request).encode()
    head = [f"{name}: {value}" for name, value in door.headers(**more)]
    lines = ["POST /mcp HTTP/1.1", *head, f"Content-Length: {len(body)}", "", ""]
    with socket.create_connection(("127.0.0.1", door.port), timeout=40) as line:
        line.sendall("\r\n".join(lines).encode() + body)
        waiting(machine)
        reported, deadline = b"", time.monotonic() + 40
        while b": ping" not in reported and time.monotonic() < deadline:
            reported += line.recv(65536)
    assert b"text/event-stream" in reported and b": ping" in reported, reported
    shut(door)
