"""Common protocol of the scripted model's APIs, and helpers for their implementation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from tillerman.testing.model_double.script import (
    DEFAULT,
    Close,
    ConnectionCut,
    Fail,
    ModelMessage,
    ModelRequest,
    ModelToolCall,
    Part,
    ReplyHold,
    Say,
    Stall,
    Think,
)

Body: TypeAlias = dict[str, Any]
Spoken: TypeAlias = Say | Think | ModelToolCall
Beat: TypeAlias = bytes | Stall | ReplyHold | ConnectionCut
"""What happens next on the connection: bytes to send, or a pause, or its end."""

_NOT_THE_USER = re.compile(
    r"<(system-reminder|task-notification)>.*?</\1>", re.DOTALL
)  # text of the CLI in a user message; it may quote a subagent
_MADE_UP = "Got it. Thanks for the"  # a reply to a summary that a CLI adds as the model's
_SUMMARY = re.compile(r"<summary>What went before: @@([\w.-]*):(\d+)@@</summary>")
_EXAMPLES = {"boolean": False, "integer": 0, "number": 0, "array": [], "object": {}}
_TAG = re.compile(r"@@([\w.-]*)(?::(\d+))?@@")


class Api(Protocol):
    """One API: decodes its requests and encodes a script's replies.

    A module implements it: each function takes the request that it answers.
    """

    @property
    def SENT_IN_STREAM(self) -> frozenset[str]:
        """The kinds of failure that are sent only after a reply has begun."""

    def kind(self, request: ModelRequest) -> str | None:
        """The purpose of the request (see `ModelRequest`), or None if it is not of this API."""

    def lane(self, body: Body) -> tuple[str, int]:
        """The scenario named last by the user, and the number of replies since."""

    def streams(self, request: ModelRequest) -> bool:
        """Whether the reply is streamed."""

    def beats(self, reply: ModelMessage, reply_id: str, request: ModelRequest) -> Iterator[Beat]:
        """The streamed reply; a pause or a cut leaves the block before it open."""

    def whole(self, reply: ModelMessage, reply_id: str, request: ModelRequest) -> bytes:
        """The reply as one JSON message."""

    def failure(self, fail: Fail) -> tuple[int, Body]:
        """The status and the body of an HTTP error."""

    def background_reply(self, request: ModelRequest) -> ModelMessage:
        """An answer to a background request that fits its schema, unlike the script's replies."""

    def count(self, body: Body) -> Body:
        """The answer to a token count request."""

    def system_text(self, body: Body) -> str:
        """The system instructions of the conversation."""

    def user_text(self, body: Body) -> str:
        """All text that the model receives, without tool results."""

    def tool_results(self, body: Body) -> dict[str, str]:
        """The text of each tool result that the model receives, by call id."""


def place(spoken_parts: Iterable[tuple[bool, str]]) -> tuple[str, int]:
    """The scenario and step of a conversation, from its messages: (by the model, text)."""
    scenario, replies = DEFAULT, 0
    for by_model, text in spoken_parts:
        if by_model and (stored := _SUMMARY.search(text)):  # some CLIs let the model repeat it
            scenario, replies = stored[1], int(stored[2])
        elif by_model:
            replies += not text.startswith(_MADE_UP)
        elif tags := _TAG.findall(_NOT_THE_USER.sub("", text)):
            scenario, replies = tags[-1][0], int(tags[-1][1] or 0)
    return scenario, replies


def summary_reply(scenario: str, step: int) -> ModelMessage:
    """A summary that contains a tag, so that the conversation keeps its position in the script."""
    summary = f"<summary>What went before: @@{scenario}:{step}@@</summary>"
    return ModelMessage((Say(f"<state_snapshot>{summary}</state_snapshot>"),))


def asks_for_a_suggestion(prompt: str) -> bool:
    """Whether a CLI requests a suggestion for the user's next prompt."""
    return prompt.lstrip().startswith("[SUGGESTION MODE")


def formed(schema: Body | None) -> ModelMessage:
    """A background reply: `ok`, or an object with the required fields of its schema."""
    if schema is None:
        return ModelMessage((Say("ok"),))
    kinds = schema.get("properties", {})
    made = {name: _example(kinds.get(name, {})) for name in schema.get("required", [])}
    return ModelMessage((Say(json.dumps(made)),))


def _example(schema: Body) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    return _EXAMPLES.get(kind, "Scripted") if isinstance(kind, str) else "Scripted"


def play(
    parts: Iterable[Part],
    begin: Callable[[int, Spoken], Iterator[Beat]],
    end: Callable[[int, Spoken], Iterator[bytes]],
    error: Callable[[Fail], bytes],
) -> Generator[Beat, None, bool]:
    """The stream of a reply's parts; returns False if it broke off.

    `begin` and `end` receive the number of the block and its content.
    """
    blocks: list[Spoken] = []
    for part in parts:
        if isinstance(part, Say | Think | ModelToolCall):
            if blocks:
                yield from end(len(blocks) - 1, blocks[-1])
            blocks.append(part)
            yield from begin(len(blocks) - 1, part)
        elif isinstance(part, Fail):
            yield error(part)
            return False
        elif isinstance(part, Close):
            return False
        else:
            yield part
            if isinstance(part, ConnectionCut):
                return False
    if blocks:
        yield from end(len(blocks) - 1, blocks[-1])
    return True


def emitted_parts(reply: ModelMessage) -> list[Spoken]:
    return [part for part in reply.parts if isinstance(part, Say | Think | ModelToolCall)]


def paced(part: Say | Think) -> Iterator[Stall | str]:
    """The text in pieces, each after its delay."""
    for piece in pieces(part.text, part.chunks):
        if part.delay:
            yield Stall(part.delay)
        yield piece


def pieces(text: str, count: int | tuple[str, ...]) -> Sequence[str]:
    if not isinstance(count, int):
        return count
    size = max(1, math.ceil(len(text) / max(1, count)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def tokens(body: Body) -> int:
    """A plausible count: four characters per token."""
    return math.ceil(len(json.dumps(body)) / 4)


def event(kind: str, **fields: Any) -> bytes:
    """A server-sent event with a name."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n".encode()


def data(fields: Body) -> bytes:
    """A server-sent event without a name."""
    return f"data: {json.dumps(fields)}\n\n".encode()
