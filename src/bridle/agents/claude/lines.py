"""A line of the CLI as data: decoded fast, and read as if every field could be missing or wrong."""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import msgspec

Table = dict[str, Any]

_DEEPEST = 64
_decoder = msgspec.json.Decoder()


class _Said(msgspec.Struct, tag="text_delta"):
    text: str


class _Thought(msgspec.Struct, tag="thinking_delta"):
    thinking: str


class _Typed(msgspec.Struct, tag="input_json_delta"):
    """A piece of a tool's input: the whole of it comes with the call."""


class _BlockDelta(msgspec.Struct, tag="content_block_delta"):
    index: int
    delta: _Said | _Thought | _Typed


class _DeltaLine(msgspec.Struct, tag="stream_event"):
    """The line that comes most: one more piece of a block."""

    event: _BlockDelta
    parent_tool_use_id: str | None = None


_delta_decoder: msgspec.json.Decoder[_DeltaLine] = msgspec.json.Decoder(_DeltaLine)
_STREAMED = b'{"type":"stream_event","event":{"type":"'
_DELTA = _STREAMED + b'content_block_delta"'
# Frequent, and nothing for the log: not worth a decode. Spelled otherwise they are decoded.
_DULL = (
    _STREAMED + b'content_block_start"',
    _STREAMED + b'content_block_stop"',
    _STREAMED + b'message_delta"',
    b'{"type":"system","subtype":"thinking_tokens"',
)


class Piece(msgspec.Struct, frozen=True, gc=False):
    """More of a block; `kind` is "" for what is told again in whole."""

    parent: str | None
    index: int
    kind: Literal["text", "thinking", ""]
    text: str


_NOTHING = Piece(None, 0, "", "")


def piece(line: bytes) -> Piece | None:
    """The quick way for the lines that come most; None for any other."""
    if not line.startswith(_DELTA):
        return _NOTHING if line.startswith(_DULL) else None
    try:
        heard = _delta_decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    delta = heard.event.delta
    if type(delta) is _Said:
        return Piece(heard.parent_tool_use_id, heard.event.index, "text", delta.text)
    if type(delta) is _Thought:
        return Piece(heard.parent_tool_use_id, heard.event.index, "thinking", delta.thinking)
    return _NOTHING


def parse(line: bytes) -> Table | str:
    """The line's object, or why it is none."""
    try:
        value = _decoder.decode(line)
    except RecursionError:
        return "nested too deeply"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        try:  # lone surrogates and NaN, which JavaScript writes and strict JSON forbids
            value = storable(json.loads(line.decode("utf-8", "replace")))
        except RecursionError:
            return "nested too deeply"
        except ValueError as error:
            return f"not JSON: {error}"
    return value if isinstance(value, dict) else "not a JSON object"


def storable(value: Any, depth: int = _DEEPEST) -> Any:
    """The value with all that our own JSON cannot carry as text instead."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case bool() | None:
            return value
        case int():
            return value if -(2**63) <= value < 2**63 else str(value)
        case float():
            return value if math.isfinite(value) else str(value)
        case dict() | list() if depth == 0:
            return "(nested too deeply)"
        case dict():
            return {str(k): storable(v, depth - 1) for k, v in value.items()}
        case list():
            return [storable(v, depth - 1) for v in value]
    return str(value)


def text(table: Table, key: str) -> str:
    value = table.get(key)
    return value if isinstance(value, str) else ""


def table(table: Table, key: str) -> Table:
    value = table.get(key)
    return value if isinstance(value, dict) else {}


def tables(table: Table, key: str) -> list[Table]:
    value = table.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def strings(table: Table, key: str) -> list[str]:
    value = table.get(key)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def count(table: Table, key: str) -> int:
    """A count that fits the log; anything else is 0."""
    value = table.get(key)
    return value if type(value) is int and 0 <= value < 2**63 else 0


def number(table: Table, key: str) -> float | None:
    value = table.get(key)
    if type(value) is int or isinstance(value, float):
        return float(value) if abs(value) < 1e15 else None
    return None
