"""WebSocket clients for benchmarks: they check the order of entries, and cost little themselves."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence

_SEQ = re.compile(rb'"seq":(\d+),')
_AT = re.compile(rb'"at":"[^"]*T(\d\d):(\d\d):([\d.]+)Z"')
_KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Follower(asyncio.Protocol):
    """One client. `keep`: keeps the messages; `read`: else it never reads after the handshake."""

    def __init__(self, request: bytes, *, read: bool = True, keep: bool = False) -> None:
        self._request = request
        self._reads = read
        self._buffer = bytearray()
        self._accepted = False
        self.kept: list[bytes] | None = [] if keep else None
        self.opened = asyncio.get_running_loop().create_future()
        self.last = 0
        self.entries = 0
        self.frames = 0
        self.wrong = 0  # entries missing, repeated or out of order
        self.lags: list[float] = []
        self.began = self.ended = 0.0
        self.ends: bytes = b""  # what the last message contains
        self.done = asyncio.Event()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._accepted:
            head, found, rest = bytes(self._buffer).partition(b"\r\n\r\n")
            if not found:
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self._accepted, self._buffer = True, bytearray(rest)
            if not self._reads:
                self._transport.pause_reading()
            self.opened.set_result(None)
        self._take()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = not self.done.is_set()
        self.done.set()

    def close(self) -> None:
        self._transport.abort()

    def _take(self) -> None:
        buffer, at = self._buffer, 0
        while len(buffer) - at >= 2:
            length, start = buffer[at + 1] & 0x7F, at + 2
            if length >= 126:
                width = 2 if length == 126 else 8
                start += width
                if len(buffer) < start:
                    break
                length = int.from_bytes(buffer[start - width : start], "big")
            if len(buffer) < start + length:
                break
            match buffer[at] & 0x0F:
                case 1:
                    self._message(bytes(buffer[start : start + length]))
                case 9:  # a ping
                    pong = bytes((0x8A, 0x80 | length, 0, 0, 0, 0))
                    self._transport.write(pong + buffer[start : start + length])
            at = start + length
        del buffer[:at]

    def _message(self, data: bytes) -> None:
        self.ended = time.perf_counter()
        self.began = self.began or self.ended
        found = _SEQ.search(data, 0, 200)
        assert found
        count = data.count(b"\n") + 1
        self.wrong += int(found[1]) != self.last + 1
        self.last = int(found[1]) + count - 1
        self.entries += count
        self.frames += 1
        if self.frames % 10 == 0 and (at := _AT.search(data, data.rfind(b"\n") + 1)):
            now = time.time() % 86_400
            self.lags.append(now - int(at[1]) * 3600 - int(at[2]) * 60 - float(at[3]))
        if self.kept is not None:
            self.kept.append(data)
        if self.ends and self.ends in data:
            self.done.set()


async def followers(
    port: int, path: str, headers: Mapping[str, str], count: int, *, read: bool = True
) -> Sequence[Follower]:
    """So many connected clients; the first keeps what it gets."""
    told = {"Host": f"127.0.0.1:{port}", **headers}
    told |= {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    told |= {"Sec-WebSocket-Key": _KEY}
    lines = [f"GET {path} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items())]
    request = "\r\n".join([*lines, "", ""]).encode()
    loop = asyncio.get_running_loop()
    found = []
    for number in range(count):
        _, one = await loop.create_connection(
            lambda number=number: Follower(request, read=read, keep=number == 0),  # type: ignore[misc]
            "127.0.0.1",
            port,
        )
        await one.opened
        found.append(one)
    return found
