"""Rejects invalid JSON-RPC request ids, which the SDK would treat as notifications.

The SDK reads a request whose id is neither a string nor an integer as a notification and never
answers it, so the client would wait forever.
"""

from __future__ import annotations

import json
import re

import msgspec
from mcp_types import INVALID_REQUEST
from msgspec import UNSET, Raw, UnsetType

WHY = "a request id must be a string, or an integer of at most 100 digits"
_INTEGER = re.compile(rb"-?[0-9]{1,100}")
_NUMBER = re.compile(rb"-?[0-9.eE+-]{1,100}")


class _Envelope(msgspec.Struct):
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET


_decoder = msgspec.json.Decoder(_Envelope)


def refusal(message: bytes) -> bytes | None:
    """Returns the JSON-RPC error for a request with an invalid id; None for other messages."""
    try:
        found = _decoder.decode(message)
    except msgspec.DecodeError:
        return _error(b"null") if _is_odd(message) else None
    except RecursionError:
        return None  # the full parser reports the error
    if found.id is UNSET or found.method is UNSET:
        return None
    given = bytes(found.id)
    if given.startswith(b'"') or _INTEGER.fullmatch(given):
        return None
    return _error(given if _NUMBER.fullmatch(given) else b"null")


def _is_odd(message: bytes) -> bool:
    """Detects invalid ids in messages with NaN or Infinity, which the SDK accepts as numbers."""
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
