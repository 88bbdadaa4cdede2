"""The quick way for the lines that come most."""

from __future__ import annotations

from typing import Literal

import msgspec


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


class ClaudeTextDelta(msgspec.Struct, frozen=True, gc=False):
    """More of a block; `kind` is "" for what is told again in whole."""

    parent: str | None
    index: int
    kind: Literal["text", "thinking", ""]
    text: str


_NOTHING = ClaudeTextDelta(None, 0, "", "")


def piece(line: bytes) -> ClaudeTextDelta | None:
    """The quick way for the lines that come most; None for any other."""
    if not line.startswith(_DELTA):
        return _NOTHING if line.startswith(_DULL) else None
    try:
        heard = _delta_decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    delta = heard.event.delta
    if type(delta) is _Said:
        return ClaudeTextDelta(heard.parent_tool_use_id, heard.event.index, "text", delta.text)
    if type(delta) is _Thought:
        return ClaudeTextDelta(
            heard.parent_tool_use_id, heard.event.index, "thinking", delta.thinking
        )
    return _NOTHING
