"""Splits an agent's output into lines of bounded size, and decodes each line to events."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from tillerman.core.agent import DecodedLine, Spill
from tillerman.core.events import Unrecognized
from tillerman.core.wire import AttachmentBytes, Wire, WireReply

MAX_DEPTH = 100
NO_BRACKETS = bytes(set(range(256)) - set(b'{}[]"'))
STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")  # as signed bytes: +1 and -1
BLOCK = 65536
LONG = 1024 * 1024  # bytes; nothing shorter can take much memory
MOST_DECODED = 36 * 1024 * 1024  # bytes of memory for one line
VALUE = 64  # bytes of a small value
SHOWN = 4096  # bytes of a long unrecognized line in its event
WIDEST = re.compile(rb"[\xf0-\xf4]|\\u[dD][89abAB]")  # one such character: 4 bytes for each
_NO_EVENTS = (WireReply, AttachmentBytes)
WIDE = re.compile(rb"[\xc4-\xef]|\\u(?!00)")
SPILL_BLOCK = 256 * 1024  # bytes written to the spill file at once, at most
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
        self._pending = bytearray()
        self._overlong: _Digest | None = None

    def feed(self, chunk: bytes) -> Iterator[Line]:
        *whole, rest = chunk.split(b"\n")
        # In a short chunk only the first line can be too long, together with earlier bytes.
        parts = len(whole) if len(chunk) > self._cap else 1
        yield from filter(None, map(self._finish, whole[:parts]))
        yield from filter(None, whole[parts:])
        if rest:
            self._add(rest)

    def end(self) -> Iterator[Line]:
        cut = self._overlong is None
        if line := self._finish(b""):
            yield PartialLine(line) if cut and isinstance(line, bytes) else line

    def _add(self, part: bytes) -> None:
        if self._overlong:
            self._overlong.add(part)
            return
        self._pending += part
        if len(self._pending) > self._cap:
            self._overlong = _Digest(self._spill())
            self._overlong.add(self._pending)
            self._pending = bytearray()

    def _finish(self, part: bytes) -> bytes | OverlongLine:
        if not (self._pending or self._overlong or len(part) > self._cap):
            return part
        self._add(part)
        if self._overlong:
            line, self._overlong = self._overlong.result(), None
            return line
        whole, self._pending = bytes(self._pending), bytearray()
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
            for start in range(0, len(part), SPILL_BLOCK):
                self._spill.write(bytes(view[start : start + SPILL_BLOCK]))

    def result(self) -> OverlongLine:
        return OverlongLine(self._head, self._length, self._hash.hexdigest(), self._spill.close())


class LineDecoder:
    """Undecodable lines become `Unrecognized`, not an exception."""

    def __init__(self, wire: Wire, line_cap: int) -> None:
        self._wire = wire
        self._line_cap = line_cap

    def decode_batch(self, lines: Iterable[Line]) -> tuple[list[DecodedLine], list[dict[str, Any]]]:
        """Returns the decoded lines, and the messages to send back at once."""
        decoded_lines: list[DecodedLine] = []
        replies: list[dict[str, Any]] = []
        for line in lines:
            if type(line) is bytes:  # the usual case
                if line and not line.isspace():
                    decoded_lines.append(self._decode(line, replies))
                continue
            match line:
                case OverlongLine():
                    decoded_lines.append(DecodedLine(line.head, [self._overlong(line)]))
                case PartialLine(data) if data.strip() and not _is_complete_json(data):
                    cut = unrecognized(data, "truncated: the agent exited during this line")
                    decoded_lines.append(DecodedLine(data, [cut]))
                case PartialLine(data) if data.strip():
                    decoded_lines.append(self._decode(data, replies))
        return decoded_lines, replies

    def _decode(self, raw: bytes, replies: list[dict[str, Any]]) -> DecodedLine:
        if len(raw) > MAX_DEPTH and _brackets(raw) > MAX_DEPTH and deeper_than(MAX_DEPTH, raw):
            return DecodedLine(raw, [unrecognized(raw, f"nested deeper than {MAX_DEPTH} levels")])
        if len(raw) > LONG and (size := decoded_size(raw)) > MOST_DECODED:
            return DecodedLine(raw, [unrecognized(raw, f"would need {size >> 20} MB to decode")])
        try:
            decoded = list(self._wire.decode(raw))
        except Exception as error:  # an error in a wire must not end the turn
            why = f"{type(error).__name__} in the wire: {error}"
            return DecodedLine(raw, [unrecognized(raw, why)])
        if len(decoded) == 1 and type(decoded[0]) not in _NO_EVENTS:  # the usual case
            return DecodedLine(raw, decoded)  # type: ignore[arg-type]
        events = [one for one in decoded if not isinstance(one, _NO_EVENTS)]
        replies += [one.message for one in decoded if isinstance(one, WireReply)]
        return DecodedLine(
            raw, events, tuple(one.data for one in decoded if isinstance(one, AttachmentBytes))
        )

    def _overlong(self, line: OverlongLine) -> Unrecognized:
        return Unrecognized(
            raw=line.head.decode("utf-8", "replace"),
            why=f"longer than {self._line_cap} bytes",
            length=line.length,
            sha256=line.sha256,
            spill=line.spill,
        )


def _brackets(raw: bytes) -> int:
    return raw.count(b"{") + raw.count(b"[")


def deeper_than(levels: int, raw: bytes) -> bool:
    """Whether JSON nests deeper: later readers have less stack left than the first decoder."""
    unescaped = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(unescaped.translate(STEPS, NO_BRACKETS).split(b'"')[::2])
    depth = 0
    for start in range(0, len(brackets), BLOCK):
        steps = memoryview(brackets[start : start + BLOCK]).cast("b")
        if depth + max(accumulate(steps)) > levels:
            return True
        depth += sum(steps)
    return False


def decoded_size(raw: bytes) -> int:
    """Upper bound of the memory that the values of a JSON text take, in bytes."""
    width = 4 if WIDEST.search(raw) else 2 if WIDE.search(raw) else 1
    values = _values(raw)
    if values * VALUE > MOST_DECODED:  # may be inside strings
        values = _values_outside_strings(raw)
    return len(raw) * width + values * VALUE


def _values(json: bytes) -> int:
    return json.count(b",") + 2 * (json.count(b"[") + json.count(b"{"))


def _values_outside_strings(raw: bytes) -> int:
    values, inside, start = 0, False, 0
    while start < len(raw):
        end = start + BLOCK
        while raw[end - 1 : end] == b"\\":
            end += 1  # keeps a backslash with the character it escapes
        block = raw[start:end].replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = block.split(b'"')
        values += sum(map(_values, parts[inside::2]))
        inside ^= len(parts) % 2 == 0
        start = end
    return values


def _is_complete_json(raw: bytes) -> bool:
    return raw.rstrip().endswith((b"}", b"]"))


def unrecognized(raw: bytes, why: str) -> Unrecognized:
    """The event for an undecodable line; a long line is cut, the session stores all of it."""
    if len(raw) <= LONG:
        return Unrecognized(raw=raw.decode("utf-8", "replace"), why=why)
    head = raw[:SHOWN].decode("utf-8", "replace")
    sha256 = hashlib.sha256(raw).hexdigest()
    return Unrecognized(raw=head, why=why, length=len(raw), sha256=sha256)
