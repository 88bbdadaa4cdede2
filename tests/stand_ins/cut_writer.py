"""Writes an HTTP answer with a fault: cut after some bytes, or slowly."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

REASONS = {200: "OK", 201: "Created", 302: "Found", 304: "Not Modified"}


class Fault(NamedTuple):
    """What goes wrong with a request.

    `refuse`: closed unread. `lose`: carried out, but closed before the answer. `cut`: the answer
    ends after this many bytes. `slow`: seconds between the bytes. `status`: answered with it.
    """

    refuse: bool = False
    lose: bool = False
    cut: int | None = None
    slow: float = 0.0
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


class CutWriter:
    """Writes an answer, as far and as fast as the fault lets it."""

    def __init__(self, writer: asyncio.StreamWriter, fault: Fault | None) -> None:
        self.fault = fault or Fault()
        self.ended = False
        self._writer = writer
        self._left = self.fault.cut

    async def head(
        self, status: int, headers: tuple[tuple[str, str], ...], length: int | None
    ) -> None:
        lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Said')}"]
        lines += [f"{name}: {value}" for name, value in headers]
        lines += [] if length is None else [f"Content-Length: {length}"]
        await self.write("\r\n".join([*lines, "", ""]).encode())

    async def chunk(self, data: bytes) -> None:
        await self.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def write(self, data: bytes) -> None:
        if self.ended:
            return
        if self._left is not None:
            data, self._left = data[: self._left], self._left - len(data)
            self.ended = self._left <= 0
        if self.fault.slow:
            for byte in data:
                self._writer.write(bytes([byte]))
                await asyncio.sleep(self.fault.slow)
        else:
            self._writer.write(data)
        await self._writer.drain()
        if self.ended:
            self._writer.close()
            raise ConnectionResetError
