"""Fast decoder for the most frequent lines of Codex: message deltas."""

from __future__ import annotations

import msgspec


class CodexTextDelta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A text chunk of a message."""

    thread_id: str
    item_id: str
    delta: str


class _Line(msgspec.Struct):
    params: CodexTextDelta


_decoder: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)
_DELTA = b'{"method":"item/agentMessage/delta"'


def piece(line: bytes) -> CodexTextDelta | None:
    """Decodes a delta line; None for any other line or spelling."""
    if not line.startswith(_DELTA):
        return None
    try:
        return _decoder.decode(line).params
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
