"""Recreates an error from the object that a service sends."""

from __future__ import annotations

import msgspec

from tillerman.core import errors
from tillerman.core.errors import TillermanError, kind_of

_KINDS = {
    kind_of(one): one
    for one in vars(errors).values()
    if isinstance(one, type) and issubclass(one, TillermanError)
}


def error_of(data: bytes) -> TillermanError:
    try:
        told = msgspec.json.decode(data)["error"]
        kind = _KINDS.get(told["kind"], TillermanError)
        error = kind.__new__(kind)
        TillermanError.__init__(error, told["message"], hint=told["hint"])
        error.exit_code = told["exit_code"]
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, RecursionError):
        return unexpected(repr(data[:200]))
    return error


def unexpected(answer: str) -> TillermanError:
    return TillermanError(
        f"the service answered with {answer}",
        hint="check that the address is that of a tillerman service, and its version",
    )
