"""A small HTTP client for the service's API: requests, and streams of server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from tillerman.core.errors import TillermanError, UsageError
from tillerman.remote.error_object import error_of, unexpected

T = TypeVar("T")
PREFIX = "/api/v1"
LONGEST_LINE = 64 * 1024 * 1024  # of an event
SILENCE = 60.0  # seconds without a byte, after which a connection counts as lost


class ConnectionLost(TillermanError):
    """The service cannot be reached, or the connection to it broke."""


class HttpClient:
    def __init__(self, url: str, token: str) -> None:
        wrong = UsageError(f"not an address of a service: {url!r}", hint="http://127.0.0.1:7345")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise wrong from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise wrong
        self._tls = parts.scheme == "https"
        self._host = parts.hostname
        self._port = port or (443 if self._tls else 80)
        self._head = f"Host: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"

    async def read(
        self, kind: type[T], path: str, *, method: str = "GET", body: object = None
    ) -> T:
        """The decoded body of the response."""
        data = await self.call(method, path, body)
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise unexpected(repr(data[:200])) from None

    async def call(self, method: str, path: str, body: object = None) -> bytes:
        """Returns the body of the response; raises the service's error."""
        data = b"" if body is None else msgspec.json.encode(body)
        more = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n"
        async with self._sent(method, path, more if body is not None else "", data) as response:
            return b"".join([part async for part in response.parts()])

    async def events(self, path: str) -> AsyncIterator[bytes]:
        """The data of each event; ends if the service ends the stream."""
        async with self._sent("GET", path, "", b"") as response:
            rest = b""
            async for part in response.parts():
                *events, rest = (rest + part).split(b"\n\n")
                for event in events:
                    for line in event.split(b"\n"):
                        if line.startswith(b"data: "):
                            yield line[6:]

    @asynccontextmanager
    async def _sent(
        self, method: str, path: str, more: str, data: bytes
    ) -> AsyncIterator[_Response]:
        try:
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._tls, limit=LONGEST_LINE
            )
        except OSError as error:
            raise ConnectionLost(
                f"no service answers at {self._host} port {self._port}: {error}",
                hint="`tillerman serve` starts one there",
            ) from error
        try:
            head = (
                f"{method} {PREFIX}{path} HTTP/1.1\r\n{self._head}Connection: close\r\n{more}\r\n"
            )
            writer.write(head.encode() + data)
            response = await _Response.read(reader)
            if not 200 <= response.status < 300:
                raise error_of(b"".join([part async for part in response.parts()]))
            yield response
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            raise ConnectionLost(
                f"the connection to {self._host} port {self._port} broke: {error}",
                hint="the session continues there: connect again",
            ) from error
        except (ValueError, IndexError, asyncio.LimitOverrunError) as error:
            raise unexpected(f"what is no response of HTTP ({error})") from error
        finally:
            writer.close()


class _Response:
    def __init__(self, reader: asyncio.StreamReader, status: int, headers: dict[str, str]) -> None:
        self._reader = reader
        self.status = status
        self._headers = headers

    @classmethod
    async def read(cls, reader: asyncio.StreamReader) -> _Response:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        found = (line.partition(":") for line in lines if line)
        headers = {name.lower(): value.strip() for name, _, value in found}
        return cls(reader, int(first.split(" ")[1]), headers)

    async def parts(self) -> AsyncIterator[bytes]:
        """The body, as it arrives."""
        if self._headers.get("transfer-encoding", "") != "chunked":
            if length := int(self._headers.get("content-length", "0")):
                yield await self._within(self._reader.readexactly(length))
            return
        while size := int((await self._within(self._reader.readuntil(b"\r\n"))).strip(), 16):
            yield (await self._within(self._reader.readexactly(size + 2)))[:-2]

    async def _within(self, reading: Any) -> bytes:
        async with asyncio.timeout(SILENCE):
            data: bytes = await reading
            return data
