"""MCP over a stream of lines: a relay's socket, or standard input and output."""

from __future__ import annotations

import asyncio
import os

import anyio
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from bridle.sessions.counter import LONGEST_LINE


async def serve_lines(
    server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Until the client goes."""
    heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def hear() -> None:
        async with heard:
            while line := await _line(reader):
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError as error:
                    await heard.send(error)
                else:
                    await heard.send(SessionMessage(message))

    async def say() -> None:
        async with said:
            async for message in said:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                writer.write(text.encode() + b"\n")
                await writer.drain()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hear)
        tasks.start_soon(say)
        await server.run(incoming, outgoing, server.create_initialization_options())
        tasks.cancel_scope.cancel()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """Empty when there is no other: the client is gone, or sends what nobody could keep."""
    try:
        return await reader.readline()
    except (ValueError, ConnectionError):
        return b""


async def standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    ours = [os.fdopen(os.dup(number), mode) for number, mode in ((0, "rb"), (1, "wb"))]
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), ours[0])
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, ours[1])
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
