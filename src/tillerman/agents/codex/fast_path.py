"""The quick way for the lines that come most."""

from __future__ import annotations

import msgspec


class CodexTextDelta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A few more words of a message."""

    thread_id: str
    item_id: str
    delta: str


class _Line(msgspec.Struct):
    params: CodexTextDelta


_decoder: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)
_DELTA = b'{"method":"item/agentMessage/delta"'


def piece(line: bytes) -> CodexTextDelta | None:
    """None for any other line, and for one that is spelled otherwise."""
    if not line.startswith(_DELTA):
        return None
    try:
        return _decoder.decode(line).params
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
