"""Encodes and compresses events, raw lines and text as SQLite values, and decodes them."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from tillerman.core import events
from tillerman.core.events import Entry, Event, Unrecognized

Received = tuple[bytes | None, Sequence[Entry]]  # an agent's line, and the entries it caused
Line = tuple[int, int, bytes]  # first entry, last entry, the agent's line

PACK_ABOVE = 512  # bytes of an event; below this zlib gains nothing
PACK_LINES_ABOVE = 1024  # bytes of some lines; below this zlib costs more time than it is worth
ZLIB = b"\x78"  # first byte of a zlib stream; no msgpack list begins with it
BLOCK = 256 * 1024  # bytes of raw lines stored and unpacked together

_any_json = msgspec.json.Decoder(msgspec.Raw)
_lines_decoder = msgspec.msgpack.Decoder(list[Line])


class _Tagged(msgspec.Struct):
    type: str


_type_decoder = msgspec.json.Decoder(_Tagged)


def text(value: str) -> str:
    """Replaces lone surrogates, which SQLite and JSON refuse, by a replacement character."""
    if value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def encode(value: Any) -> bytes:
    """Encodes an event or plain values as JSON."""
    try:
        return events.encode(value)
    except UnicodeEncodeError:
        return events.encode(_replaced(msgspec.to_builtins(value)))


def pack_event(event: Event) -> bytes:
    """Encodes the event as JSON, and compresses long ones."""
    encoded = encode(event)
    return encoded if len(encoded) <= PACK_ABOVE else zlib.compress(encoded, 1)


def unpack_event(packed: bytes) -> bytes:
    """Returns the event's JSON; damaged bytes become an `Unrecognized` event."""
    try:
        # JSON begins with a brace, and a zlib stream never does
        encoded = packed if packed[:1] == b"{" else zlib.decompress(packed)
        _any_json.decode(encoded)
        if not encoded.isascii():
            encoded.decode()
    except (zlib.error, TypeError, ValueError, msgspec.MsgspecError) as error:
        return events.encode(Unrecognized(raw=repr(packed), why=f"damaged in the store: {error}"))
    return encoded


def event_type(packed: bytes) -> str:
    try:
        return _type_decoder.decode(unpack_event(packed)).type
    except msgspec.MsgspecError:
        return ""


def pack_lines(lines: Sequence[Line]) -> list[tuple[int, bytes]]:
    """Packs lines into compressed blocks.

    Each block is stored under the number of its first entry. Compressing many lines together takes
    a third of the time and space of compressing each line.
    """
    blocks: list[tuple[int, bytes]] = []
    begin = size = 0
    for end, (_, _, raw) in enumerate(lines, 1):
        size += len(raw)
        if size >= BLOCK:
            blocks.append(_pack_block(lines[begin:end]))
            begin, size = end, 0
    if begin < len(lines):
        blocks.append(_pack_block(lines[begin:]))
    return blocks


def unpack_lines(block: bytes) -> list[Line]:
    """Unpacks lines with the numbers of their first and last entries; `ValueError` when damaged."""
    try:
        packed = block[:1] == ZLIB
        return _lines_decoder.decode(zlib.decompress(block) if packed else block)
    except (zlib.error, TypeError, msgspec.MsgspecError) as error:
        raise ValueError(str(error)) from error


def _pack_block(lines: Sequence[Line]) -> tuple[int, bytes]:
    block = msgspec.msgpack.encode(lines)
    return lines[0][0], block if len(block) <= PACK_LINES_ABOVE else zlib.compress(block, 1)


def _replaced(value: Any) -> Any:
    match value:
        case str():
            return text(value)
        case dict():
            return {_replaced(key): _replaced(item) for key, item in value.items()}
        case list() | tuple():
            return [_replaced(item) for item in value]
        case _:
            return value
