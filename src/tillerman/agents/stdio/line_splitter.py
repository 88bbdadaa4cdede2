"""Splits a byte stream into lines with bounded memory, independent of chunk boundaries."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tillerman.core.agent import Spill

BLOCK = 256 * 1024  # bytes written to the spill file at once, at most
HEAD = 4096  # bytes of an over-long line stored in its event


class OverlongLine(NamedTuple):
    """A line longer than the cap: its start, and what identifies the rest."""

    head: bytes
    length: int
    sha256: str
    spill: str


class PartialLine(NamedTuple):
    """Bytes after the last newline when the stream ended."""

    data: bytes


Line = bytes | OverlongLine | PartialLine


class LineSplitter:
    def __init__(self, cap: int, spill: Callable[[], Spill]) -> None:
        self._cap = cap
        self._spill = spill
        self._kept = bytearray()
        self._overlong: _Digest | None = None

    def feed(self, chunk: bytes) -> Iterator[Line]:
        *whole, rest = chunk.split(b"\n")
        # In a short chunk only the first line can be too long, together with earlier bytes.
        parts = len(whole) if len(chunk) > self._cap else 1
        yield from filter(None, map(self._finish, whole[:parts]))
        yield from filter(None, whole[parts:])
        if rest:
            self._keep(rest)

    def end(self) -> Iterator[Line]:
        cut = self._overlong is None
        if line := self._finish(b""):
            yield PartialLine(line) if cut and isinstance(line, bytes) else line

    def _keep(self, part: bytes) -> None:
        if self._overlong:
            self._overlong.add(part)
            return
        self._kept += part
        if len(self._kept) > self._cap:
            self._overlong = _Digest(self._spill())
            self._overlong.add(self._kept)
            self._kept = bytearray()

    def _finish(self, part: bytes) -> bytes | OverlongLine:
        if not (self._kept or self._overlong or len(part) > self._cap):
            return part
        self._keep(part)
        if self._overlong:
            line, self._overlong = self._overlong.result(), None
            return line
        whole, self._kept = bytes(self._kept), bytearray()
        return whole


class _Digest:
    """Counts, hashes and spills a line that is not decoded."""

    def __init__(self, spill: Spill) -> None:
        self._head = b""
        self._length = 0
        self._hash = hashlib.sha256()
        self._spill = spill

    def add(self, part: bytes | bytearray) -> None:
        if len(self._head) < HEAD:
            self._head += part[: HEAD - len(self._head)]
        self._length += len(part)
        self._hash.update(part)
        with memoryview(part) as view:
            for start in range(0, len(part), BLOCK):
                self._spill.write(bytes(view[start : start + BLOCK]))

    def result(self) -> OverlongLine:
        return OverlongLine(self._head, self._length, self._hash.hexdigest(), self._spill.close())
