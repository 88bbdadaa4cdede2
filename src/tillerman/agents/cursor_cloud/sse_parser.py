"""Parses server-sent events. No I/O: bytes in, events out; an incomplete event is dropped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

MOST_EVENT = 16 * 1024 * 1024  # bytes


class ServerEvent(NamedTuple):
    kind: str
    data: str
    id: str | None  # None: this event has none of its own


class EventTooLong(ValueError):
    """An event is longer than the limit."""


class EventStreamParser:
    def __init__(self) -> None:
        self._rest = bytearray()
        self._started = False
        self._after_return = False  # the last line ended with \r: a \n that follows belongs to it
        self._clear()

    def feed(self, data: bytes) -> Iterator[ServerEvent]:
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        seen = len(self._rest)  # has no line end
        self._rest += data
        start = 0
        while (end := self._line_end(max(start, seen))) >= 0:
            line = bytes(self._rest[start:end])
            start = end + 1
            if self._rest[end : end + 1] == b"\r":
                if start == len(self._rest):
                    self._after_return = True
                elif self._rest[start : start + 1] == b"\n":
                    start += 1
            if (event := self._line(line)) is not None:
                yield event
        del self._rest[:start]
        if len(self._rest) + self._size > MOST_EVENT:
            raise EventTooLong(f"an event is longer than {MOST_EVENT >> 20} MB")

    def _line_end(self, start: int) -> int:
        ends = [
            at for at in (self._rest.find(b"\n", start), self._rest.find(b"\r", start)) if at >= 0
        ]
        return min(ends, default=-1)

    def _clear(self) -> None:
        self._kind = ""
        self._id: str | None = None
        self._data: list[str] = []
        self._size = 0

    def _line(self, line: bytes) -> ServerEvent | None:
        if not self._started:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._started = True
        if not line:
            event = ServerEvent(self._kind or "message", "\n".join(self._data), self._id)
            found = bool(self._data) or bool(self._kind)
            self._clear()
            return event if found else None
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._kind = value
            case "data":
                self._data.append(value)
                self._size += len(line)
            case "id" if "\0" not in value:
                self._id = value
        return None
