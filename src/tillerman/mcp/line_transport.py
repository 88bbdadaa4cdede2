"""MCP over a stream of lines: a relay's socket, or standard input and output."""

from __future__ import annotations

import asyncio
import json

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
from tillerman.sessions.remote.line_stream import TooLong, id_at_end, id_of, is_encodable, lines
from tillerman.sessions.remote.private_socket import LONGEST_LINE


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
                async for line in lines(reader, LONGEST_LINE):
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


def _complaint(line: bytes | TooLong, error: ValueError) -> JSONRPCError:
    """Builds the error response for an invalid line, so that the client does not wait forever."""
    if isinstance(line, TooLong):
        return _refused(line.request_id, PARSE_ERROR, str(error))
    try:
        told = json.dumps(json.loads(line), ensure_ascii=False)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return _refused(None, PARSE_ERROR, "the line is not JSON")
    except (ValueError, RecursionError):
        why = "the line is nested too deeply, or contains a number that is too long"
        return _refused(id_at_end(line), PARSE_ERROR, why)
    if is_encodable(told):
        return _refused(id_of(line), INVALID_REQUEST, "the line is not a JSON-RPC 2.0 request")
    why = "the line contains an unpaired surrogate"
    return _refused(id_of(line), PARSE_ERROR, why)


def _refused(request: RequestId | None, code: int, why: str) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=request, error=ErrorData(code=code, message=why))
