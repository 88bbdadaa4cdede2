"""MCP over a stream of lines: a relay's socket, or standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator

import anyio
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    RequestId,
    jsonrpc_message_adapter,
)

from tillerman.mcp import request_ids
from tillerman.mcp.direct_calls import DirectCalls
from tillerman.sessions.remote.private_socket import LONGEST_LINE

_ENDS = 256  # bytes stored from both ends of an overlong line, one of which has its id
_ID_FIRST = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+|"[^"\\]*")\s*,')
_ID_LAST = re.compile(rb',\s*"id"\s*:\s*(\d+|"[^"\\]*")\s*\}\s*$')


class TooLong(ValueError):
    """A line above the size limit, with its two ends."""

    def __init__(self, first: bytes, last: bytes) -> None:
        super().__init__(f"the line is longer than {LONGEST_LINE} bytes: send less at once")
        self.first = first
        self.last = last


async def serve_lines(
    server: Server,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    direct: DirectCalls | None = None,
) -> None:
    """Serves until the client disconnects.

    Cancelling ends the input instead of the SDK's streams, which break when they are cancelled.
    `direct` answers calls that do not need the SDK.
    """
    receiving = anyio.CancelScope()
    serving = asyncio.ensure_future(_serve(server, reader, writer, receiving, direct))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        receiving.cancel()
        await serving
        raise


async def _serve(
    server: Server,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    receiving: anyio.CancelScope,
    direct: DirectCalls | None,
) -> None:
    received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)

    async def write(line: bytes) -> None:
        try:
            writer.write(line + b"\n")
            await writer.drain()
        except ConnectionError:
            receiving.cancel()

    async def receive() -> None:
        async with received:
            with receiving:
                async for line in lines(reader):
                    try:
                        if isinstance(line, TooLong):
                            raise line
                        if refused := request_ids.refusal(line):
                            await write(refused)
                            continue
                        if direct and direct.start(line, write):
                            continue
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError as error:
                        await write(_dump(_complaint(line, error)))
                    else:
                        await received.send(SessionMessage(message))

    async def say() -> None:
        async with said:
            async for message in said:
                if direct:
                    direct.sent(message.message)
                await write(_dump(message.message))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        tasks.start_soon(say)
        await server.run(incoming, outgoing, server.create_initialization_options())
        if direct:
            await direct.close(write)
        tasks.cancel_scope.cancel()


def _dump(message: JSONRPCMessage) -> bytes:
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


async def lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes | TooLong]:
    """Yields lines until the client disconnects; an overlong line becomes `TooLong`."""
    first, last = b"", b""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.LimitOverrunError as error:
            part = await reader.readexactly(error.consumed)
            first, last = first or part[:_ENDS], (last + part[-_ENDS:])[-_ENDS:]
            continue
        except asyncio.IncompleteReadError as error:
            line = error.partial
            if not line and not first:
                return
        except ConnectionError:
            return
        if first:
            yield TooLong(first, (last + line[-_ENDS:])[-_ENDS:])
            first, last = b"", b""
        elif line.strip():
            yield line


def _complaint(line: bytes | TooLong, error: ValueError) -> JSONRPCError:
    """Builds the error response for an invalid line, so that the client does not wait forever."""
    if isinstance(line, TooLong):
        return _refused(_id_at_end(line.first, line.last), PARSE_ERROR, str(error))
    try:
        told = json.dumps(json.loads(line), ensure_ascii=False)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return _refused(None, PARSE_ERROR, "the line is not JSON")
    except (ValueError, RecursionError):
        why = "the line is nested too deeply, or contains a number that is too long"
        return _refused(_id_at_end(line), PARSE_ERROR, why)
    if _whole(told):
        return _refused(_id_of(line), INVALID_REQUEST, "the line is not a JSON-RPC 2.0 request")
    why = "the line contains an unpaired surrogate"
    return _refused(_id_of(line), PARSE_ERROR, why)


def _id_at_end(first: bytes, last: bytes | None = None) -> RequestId | None:
    """Finds the id of an unreadable request: most clients put it at one of its two ends."""
    last = first if last is None else last
    found = _ID_FIRST.match(first[:_ENDS]) or _ID_LAST.search(last[-_ENDS:])
    return _id_of(b'{"id":%s}' % found[1]) if found else None


def _id_of(line: bytes) -> RequestId | None:
    with contextlib.suppress(ValueError):
        match json.loads(line):
            case {"id": int(found)} if not isinstance(found, bool):
                return found
            case {"id": str(found)} if _whole(found):
                return found
    return None


def _whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refused(request: RequestId | None, code: int, why: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=why))


async def standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    ours = [os.fdopen(os.dup(number), mode) for number, mode in ((0, "rb"), (1, "wb"))]
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), ours[0])
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, ours[1])
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)
