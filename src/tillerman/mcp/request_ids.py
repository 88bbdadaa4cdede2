"""Request ids that MCP does not have: they are answered with an error, not taken for notifications.

The SDK reads a request whose id is neither a string nor an integer as a notification, which nobody
answers. A client that sent it would wait for ever.
"""

from __future__ import annotations

import json
import re

import msgspec
from mcp_types import INVALID_REQUEST
from msgspec import UNSET, Raw, UnsetType

WHY = "the id of a request is a string or an integer of at most 100 digits"
_INTEGER = re.compile(rb"-?[0-9]{1,100}")
_NUMBER = re.compile(rb"-?[0-9.eE+-]{1,100}")


class _Envelope(msgspec.Struct):
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET


_decoder = msgspec.json.Decoder(_Envelope)


def refusal(message: bytes) -> bytes | None:
    """The JSON-RPC error for a request with such an id; None for every other message."""
    try:
        found = _decoder.decode(message)
    except msgspec.DecodeError:
        return _error(b"null") if _is_odd(message) else None
    except RecursionError:
        return None  # whoever reads all of it says what is wrong
    if found.id is UNSET or found.method is UNSET:
        return None
    given = bytes(found.id)
    if given.startswith(b'"') or _INTEGER.fullmatch(given):
        return None
    return _error(given if _NUMBER.fullmatch(given) else b"null")


def _is_odd(message: bytes) -> bool:
    """The SDK takes NaN and Infinity for numbers, as Python's json does."""
    try:
        found = json.loads(message)
    except (ValueError, RecursionError):
        return False
    match found:
        case {"id": int() | str() as given, "method": _}:
            return isinstance(given, bool)
        case {"id": _, "method": _}:
            return True
    return False


def _error(echoed: bytes) -> bytes:
    error = msgspec.json.encode({"code": INVALID_REQUEST, "message": WHY})
    return b'{"jsonrpc":"2.0","id":%s,"error":%s}' % (echoed, error)
