"""Small HTTP/1.1 server on loopback: keep-alive, chunked responses, connections cut on purpose."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_LARGEST_HEAD = 256 * 1024
_LARGEST_BODY = 256 * 1024 * 1024
_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 413: "Content Too Large"}


@dataclass(frozen=True)
class HttpRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class BadRequest(Exception):
    """The client's request is not HTTP that this server supports."""


class CutConnection(Exception):
    """Raised by a handler to close the connection in the middle of the answer."""


class HttpAnswer:
    """The answer to one request: complete with `send`, or `begin` and then pieces with `write`."""

    def __init__(self, writer: asyncio.StreamWriter, *, head_only: bool) -> None:
        self._writer = writer
        self._head_only = head_only
        self._chunked = False

    async def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self._head(status, headers | {"content-length": str(len(body))})
        if not self._head_only:
            self._writer.write(body)
        await self._writer.drain()

    async def begin(self, status: int, headers: dict[str, str]) -> None:
        self._chunked = True
        self._head(status, headers | {"transfer-encoding": "chunked"})
        await self._writer.drain()

    async def write(self, piece: bytes) -> None:
        self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await self._writer.drain()

    async def finish(self) -> None:
        if self._chunked:
            self._writer.write(b"0\r\n\r\n")
            await self._writer.drain()

    def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))


Handler = Callable[[HttpRequest, HttpAnswer], Awaitable[None]]


class LoopbackServer:
    """Serves a handler on 127.0.0.1 while the `async with` block runs."""

    def __init__(self, handler: Handler, port: int = 0) -> None:
        self._handler = handler
        self._wanted_port = port
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", self._wanted_port, limit=_LARGEST_HEAD
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve_connection(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, CutConnection):
            pass  # the client disconnected, or the script requested this
        except asyncio.CancelledError:
            pass  # only __aexit__ cancels; a task that ends cancelled is logged by asyncio
        finally:
            self._connections.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        while True:
            try:
                request = await _read_request(reader, writer)
            except BadRequest as error:
                answer = HttpAnswer(writer, head_only=False)
                await answer.send(400, str(error).encode(), {"connection": "close"})
                return
            if request is None:
                return
            answer = HttpAnswer(writer, head_only=request.method == "HEAD")
            await self._handler(request, answer)
            await answer.finish()
            if request.headers.get("connection", "").lower() == "close":
                return


async def _read_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> HttpRequest | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise BadRequest("the request head was cut") from None
        return None
    except asyncio.LimitOverrunError:
        raise BadRequest(f"the request head is over {_LARGEST_HEAD} bytes") from None
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    try:
        method, path, _version = first.split(" ")
    except ValueError:
        raise BadRequest(f"not a request line: {first[:200]!r}") from None
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return HttpRequest(method, path, headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        body = bytearray()
        while size := await _read_chunk_size(reader):
            if len(body) + size > _LARGEST_BODY:
                raise BadRequest(f"the request body is over {_LARGEST_BODY} bytes")
            body += await reader.readexactly(size)
            await reader.readexactly(2)
        while await reader.readline() not in (b"\r\n", b""):
            pass
        return bytes(body)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > _LARGEST_BODY:
        raise BadRequest(f"unreadable content-length: {length[:40]!r}")
    return await reader.readexactly(int(length))


async def _read_chunk_size(reader: asyncio.StreamReader) -> int:
    line = await reader.readline()
    try:
        return int(line.split(b";")[0], 16)
    except ValueError:
        raise BadRequest(f"unreadable chunk size: {line[:40]!r}") from None
