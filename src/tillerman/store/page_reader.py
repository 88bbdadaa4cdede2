"""Reads rows from the pages of a damaged SQLite file without using its B-trees."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

from tillerman.store.wal_reader import PAGE, Log

Value = int | float | str | bytes | None

LEAF = 13  # page type of a table leaf, which holds rows
_FILE_HEADER = 100  # bytes at the start of page 1
_LOCAL_MOST = PAGE - 35
_LOCAL_LEAST = (PAGE - 12) * 32 // 255 - 23
_WIDTHS = (0, 1, 2, 3, 4, 6, 8)  # bytes of an integer, by serial type


Row = tuple[int, tuple[Value, ...]]  # rowid and columns


def rows(path: Path) -> Iterator[Row]:
    """Yields every readable row of any table.

    A page with a valid log frame is read from that frame. Rows of broken frames come last: they are
    correct, or duplicates of earlier rows.
    """
    newest: dict[int, bytes] = {}
    doubtful: list[bytes] = []
    frames = list(Log.beside(path).frames(checked=True))
    last_commit = max((frame.number for frame in frames if frame.commits), default=0)
    for frame in frames[: sum(frame.number <= last_commit for frame in frames)]:
        if frame.whole:
            newest[frame.page] = frame.data
        else:
            doubtful.append(frame.data)
    with path.open("rb") as file:
        size = file.seek(0, 2)
        content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        source = _Pages(content, newest)
        for number in sorted({*range(1, size // PAGE + 1), *newest}):
            yield from source.rows_of(source.page(number), _FILE_HEADER if number == 1 else 0)
        for page in doubtful:
            yield from source.rows_of(page, 0)
        if isinstance(content, mmap.mmap):
            content.close()


class _Pages:
    def __init__(self, content: mmap.mmap | bytes, newest: dict[int, bytes]) -> None:
        self._content = content
        self._newest = newest

    def page(self, number: int) -> bytes:
        found = self._newest.get(number)
        return self._content[(number - 1) * PAGE : number * PAGE] if found is None else found

    def rows_of(self, page: bytes, start: int) -> Iterator[Row]:
        if len(page) < PAGE or page[start] != LEAF:
            return
        (count,) = struct.unpack_from(">H", page, start + 3)
        count = min(count, (PAGE - start - 8) // 2)
        for cell in struct.unpack_from(f">{count}H", page, start + 8):
            try:
                yield self._row(page, cell)
            except (IndexError, ValueError, struct.error):
                continue  # skip this row; the others may be readable

    def _row(self, page: bytes, cell: int) -> Row:
        length, at = _varint(page, cell)
        number, at = _varint(page, at)
        return number, _record(self._payload(page, at, length))

    def _payload(self, page: bytes, at: int, length: int) -> bytes:
        if length <= _LOCAL_MOST:
            payload = page[at : at + length]
        else:
            local = _LOCAL_LEAST + (length - _LOCAL_LEAST) % (PAGE - 4)
            local = local if local <= _LOCAL_MOST else _LOCAL_LEAST
            parts = [page[at : at + local]]
            (following,) = struct.unpack_from(">I", page, at + local)
            left = length - local
            if left > len(self._content) + PAGE * len(self._newest):
                raise ValueError("longer than the file")
            while left > 0:
                further = self.page(following)
                (following,) = struct.unpack_from(">I", further)
                parts.append(further[4 : 4 + left])
                left -= PAGE - 4
            payload = b"".join(parts)
        if len(payload) != length:
            raise ValueError("cut short")
        return payload


def _record(payload: bytes) -> tuple[Value, ...]:
    header, at = _varint(payload, 0)
    body = header
    values: list[Value] = []
    while at < header:
        serial, at = _varint(payload, at)
        value, body = _value(payload, body, serial)
        values.append(value)
    if body != len(payload):
        raise ValueError("length mismatch")
    return tuple(values)


def _value(payload: bytes, at: int, serial: int) -> tuple[Value, int]:
    if serial == 0:
        return None, at
    if serial <= 6:
        width = _WIDTHS[serial]
        return int.from_bytes(payload[at : at + width], "big", signed=True), at + width
    if serial == 7:
        (number,) = struct.unpack_from(">d", payload, at)
        return float(number), at + 8
    if serial in (8, 9):
        return serial - 8, at
    if serial < 12:
        raise ValueError("an unknown type")
    width = (serial - 12) // 2
    data = payload[at : at + width]
    return (data.decode() if serial % 2 else data), at + width


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(8):
        byte = data[at + index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + index + 1
    return value << 8 | data[at + 8], at + 9
