"""Lenient reading of JSON objects: any field may be missing or have the wrong type."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import msgspec

Table = dict[str, Any]

_DEEPEST = 64
_LONE = re.compile("[\ud800-\udfff]")  # U+FFFD is what JavaScript hands to a program instead
_decoder = msgspec.json.Decoder()


def parse(line: bytes) -> Table | str:
    """The JSON object of the line, or an error text."""
    try:
        value = _decoder.decode(line)
    except RecursionError:
        return "nested too deeply"
    except (msgspec.MsgspecError, UnicodeDecodeError):
        try:  # lone surrogates and NaN: JavaScript writes them, strict JSON forbids them
            value = storable(json.loads(line.decode("utf-8", "replace")))
        except RecursionError:
            return "nested too deeply"
        except ValueError as error:
            return f"not JSON: {error}"
    return value if isinstance(value, dict) else "not a JSON object"


def storable(value: Any, depth: int = _DEEPEST) -> Any:
    """The value with everything that the log's JSON cannot represent converted to text."""
    match value:
        case str():
            return value if value.isascii() else _LONE.sub("\ufffd", value)
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
    """A non-negative integer below 2**63; anything else is 0."""
    value = table.get(key)
    return value if type(value) is int and 0 <= value < 2**63 else 0


def number(table: Table, key: str) -> float | None:
    value = table.get(key)
    if type(value) is int or isinstance(value, float):
        return float(value) if abs(value) < 1e15 else None
    return None


def at(table: Any, *keys: str) -> Any:
    """The value at this path of keys, or None."""
    for key in keys:
        if not isinstance(table, dict):
            return None
        table = table.get(key)
    return table
