"""Fast decoder for the most frequent lines of Claude Code: text and thinking deltas."""

from __future__ import annotations

from typing import Literal

import msgspec


class _Said(msgspec.Struct, tag="text_delta"):
    text: str


class _Thought(msgspec.Struct, tag="thinking_delta"):
    thinking: str


class _Typed(msgspec.Struct, tag="input_json_delta"):
    """A chunk of a tool's input: the call repeats all of it."""


class _BlockDelta(msgspec.Struct, tag="content_block_delta"):
    index: int
    delta: _Said | _Thought | _Typed


class _DeltaLine(msgspec.Struct, tag="stream_event"):
    """The most frequent line: one more chunk of a block."""

    event: _BlockDelta
    parent_tool_use_id: str | None = None


_delta_decoder: msgspec.json.Decoder[_DeltaLine] = msgspec.json.Decoder(_DeltaLine)
_STREAMED = b'{"type":"stream_event","event":{"type":"'
_DELTA = _STREAMED + b'content_block_delta"'
# Frequent lines without content for the log, skipped undecoded. In other spellings they are
# decoded.
_IGNORED_LINES = (
    _STREAMED + b'content_block_start"',
    _STREAMED + b'content_block_stop"',
    _STREAMED + b'message_delta"',
    b'{"type":"system","subtype":"thinking_tokens"',
)


class ClaudeTextDelta(msgspec.Struct, frozen=True, gc=False):
    """A chunk of a block; `kind` is "" for one that is repeated in full later."""

    parent: str | None
    index: int
    kind: Literal["text", "thinking", ""]
    text: str


_NOTHING = ClaudeTextDelta(None, 0, "", "")


def piece(line: bytes) -> ClaudeTextDelta | None:
    """Decodes a delta line; None for any other line."""
    if not line.startswith(_DELTA):
        return _NOTHING if line.startswith(_IGNORED_LINES) else None
    try:
        received = _delta_decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    delta = received.event.delta
    if type(delta) is _Said:
        return ClaudeTextDelta(
            received.parent_tool_use_id, received.event.index, "text", delta.text
        )
    if type(delta) is _Thought:
        return ClaudeTextDelta(
            received.parent_tool_use_id, received.event.index, "thinking", delta.thinking
        )
    return _NOTHING
