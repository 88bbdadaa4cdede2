"""Decodes an agent's lines to events; undecodable ones become `Unrecognized`, not an exception."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from tillerman.agents.stdio.line_splitter import Line, OverlongLine, PartialLine
from tillerman.core.agent import DecodedLine
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


class LineDecoder:
    def __init__(self, wire: Wire, line_cap: int) -> None:
        self._wire = wire
        self._line_cap = line_cap

    def understand(self, lines: Iterable[Line]) -> tuple[list[DecodedLine], list[dict[str, Any]]]:
        """Returns the decoded lines, and the messages to send back at once."""
        received: list[DecodedLine] = []
        replies: list[dict[str, Any]] = []
        for line in lines:
            if type(line) is bytes:  # the usual case
                if line and not line.isspace():
                    received.append(self._decode(line, replies))
                continue
            match line:
                case OverlongLine():
                    received.append(DecodedLine(line.head, [self._overlong(line)]))
                case PartialLine(data) if data.strip() and not _is_complete_json(data):
                    cut = unrecognized(data, "truncated: the agent exited during this line")
                    received.append(DecodedLine(data, [cut]))
                case PartialLine(data) if data.strip():
                    received.append(self._decode(data, replies))
        return received, replies

    def _decode(self, raw: bytes, replies: list[dict[str, Any]]) -> DecodedLine:
        if len(raw) > MAX_DEPTH and _brackets(raw) > MAX_DEPTH and deeper_than(MAX_DEPTH, raw):
            return DecodedLine(raw, [unrecognized(raw, f"nested deeper than {MAX_DEPTH} levels")])
        if len(raw) > LONG and (size := decoded_size(raw)) > MOST_DECODED:
            return DecodedLine(raw, [unrecognized(raw, f"would need {size >> 20} MB to decode")])
        try:
            said = list(self._wire.decode(raw))
        except Exception as error:  # an error in a wire must not end the turn
            why = f"{type(error).__name__} in the wire: {error}"
            return DecodedLine(raw, [unrecognized(raw, why)])
        if len(said) == 1 and type(said[0]) not in _NO_EVENTS:  # the usual case
            return DecodedLine(raw, said)  # type: ignore[arg-type]
        events = [one for one in said if not isinstance(one, _NO_EVENTS)]
        replies += [one.message for one in said if isinstance(one, WireReply)]
        return DecodedLine(
            raw, events, tuple(one.data for one in said if isinstance(one, AttachmentBytes))
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
