"""Fast decoder for the most frequent ACP lines: chunks of model text and thoughts."""

from __future__ import annotations

import msgspec

_HEAD = 400  # bytes; agents order the members differently


class _Text(msgspec.Struct, tag_field="type", tag="text"):
    text: str


class _Said(msgspec.Struct, tag_field="sessionUpdate", tag="agent_message_chunk"):
    content: _Text
    messageId: str | None = None
    meta: msgspec.Raw | None = msgspec.field(default=None, name="_meta")


class _Thought(msgspec.Struct, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    content: _Text
    messageId: str | None = None
    meta: msgspec.Raw | None = msgspec.field(default=None, name="_meta")


class _Params(msgspec.Struct):
    sessionId: str
    update: _Said | _Thought


class _Line(msgspec.Struct):
    method: str
    params: _Params
    id: msgspec.Raw | None = None


_decoder: msgspec.json.Decoder[_Line] = msgspec.json.Decoder(_Line)


class AcpTextDelta(msgspec.Struct, frozen=True, gc=False):
    session: str
    thought: bool
    text: str
    message_id: str | None


def piece(line: bytes) -> AcpTextDelta | None:
    """Decodes a text chunk; None for any other line and for chunks with additional members."""
    head = line[:_HEAD]
    if b"agent_message_chunk" not in head and b"agent_thought_chunk" not in head:
        return None
    try:
        received = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    update = received.params.update
    if received.id is not None or received.method != "session/update" or update.meta is not None:
        return None
    thought = type(update) is _Thought
    return AcpTextDelta(received.params.sessionId, thought, update.content.text, update.messageId)
