"""MCP server of the bare SDK with the least that a supervised command needs, to compare with.

Another process, like the warden, forks for each command; the command leads a session, and its
output goes through pipes to files. It has no policy, log, record, limits, namespace or mounts.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from bench.mcp_floor_process import FILES


async def main(end: socket.socket, folder: Path) -> None:
    loop = asyncio.get_running_loop()

    async def call(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        await loop.sock_sendall(end, str((params.arguments or {})["command"]).encode())
        status = await loop.sock_recv(end, 100)
        wrote = "".join((folder / name).read_text() for name in FILES)
        text = f"status {status.decode()}\n{wrote}"
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server: Server[Any] = Server("floor", on_call_tool=call)
    async with stdio_server() as (reads, writes):
        await server.run(reads, writes, server.create_initialization_options())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = socket.socketpair()
        program = Path(__file__).with_name("mcp_floor_process.py")
        subprocess.Popen(
            [sys.executable, "-I", "-S", program, str(theirs.fileno()), name],
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        ours.setblocking(False)
        asyncio.run(main(ours, Path(name)))
