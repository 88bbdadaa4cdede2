"""What the APIs that a scripted model speaks have in common: one contract, and the parts of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Generator, Iterable, Iterator
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
)  # a CLI's own words in a user message; they may quote a subagent
_MADE_UP = "Got it. Thanks for the"  # a reply to a summary that a CLI puts in the model's mouth
_SUMMARY = re.compile(r"<summary>What went before: @@([\w.-]*):(\d+)@@</summary>")
_EXAMPLES = {"boolean": False, "integer": 0, "number": 0, "array": [], "object": {}}
_TAG = re.compile(r"@@([\w.-]*)(?::(\d+))?@@")


class Api(Protocol):
    """One API: how its requests are read and how a script's replies are written in it.

    A module is one: each function takes the request that it answers.
    """

    @property
    def TOLD_IN_STREAM(self) -> frozenset[str]:
        """The kinds of failure that come only after a reply has begun."""

    def kind(self, request: ModelRequest) -> str | None:
        """What the request is for (see `ModelRequest`), or None where it is not of this API."""

    def lane(self, body: Body) -> tuple[str, int]:
        """The scenario named last in what the user said, and how many replies it has had since."""

    def streams(self, request: ModelRequest) -> bool:
        """Whether the reply is to be sent in pieces."""

    def beats(self, reply: ModelMessage, reply_id: str, request: ModelRequest) -> Iterator[Beat]:
        """The reply in pieces; a pause or a cut leaves the block before it open."""

    def whole(self, reply: ModelMessage, reply_id: str, request: ModelRequest) -> bytes:
        """The reply as one JSON message."""

    def failure(self, fail: Fail) -> tuple[int, Body]:
        """The status and the body of an HTTP error."""

    def dull_reply(self, request: ModelRequest) -> ModelMessage:
        """An answer to a chore that fits its form and that no test takes for the script's."""

    def count(self, body: Body) -> Body:
        """The answer to a question of how many tokens a conversation has."""

    def system_text(self, body: Body) -> str:
        """The instructions that stand above the conversation."""

    def user_text(self, body: Body) -> str:
        """All text the model is told, tool results aside."""

    def tool_results(self, body: Body) -> dict[str, str]:
        """The text of each tool result the model is shown, by the id of its call."""


def place(spoken: Iterable[tuple[bool, str]]) -> tuple[str, int]:
    """Where a conversation is, from its messages in order: by the model or not, and their text."""
    scenario, replies = DEFAULT, 0
    for by_model, text in spoken:
        if by_model and (kept := _SUMMARY.search(text)):  # some CLIs let the model tell it again
            scenario, replies = kept[1], int(kept[2])
        elif by_model:
            replies += not text.startswith(_MADE_UP)
        elif tags := _TAG.findall(_NOT_THE_USER.sub("", text)):
            scenario, replies = tags[-1][0], int(tags[-1][1] or 0)
    return scenario, replies


def summary_reply(scenario: str, step: int) -> ModelMessage:
    """A summary with a tag in it, so that the conversation keeps its place in the script."""
    summary = f"<summary>What went before: @@{scenario}:{step}@@</summary>"
    return ModelMessage((Say(f"<state_snapshot>{summary}</state_snapshot>"),))


def asks_for_a_suggestion(prompt: str) -> bool:
    """Whether a CLI wants to know what its user might say next."""
    return prompt.lstrip().startswith("[SUGGESTION MODE")


def formed(schema: Body | None) -> ModelMessage:
    """A dull reply: `ok`, or an object with what its schema requires."""
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
    """The beats of a reply's parts; false when it broke off. `begin` and `end` get the number of
    the block and what is said in it."""
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


def spoken(reply: ModelMessage) -> list[Spoken]:
    return [part for part in reply.parts if isinstance(part, Say | Think | ModelToolCall)]


def paced(part: Say | Think) -> Iterator[Stall | str]:
    """The text in pieces, each after its delay."""
    for piece in pieces(part.text, part.chunks):
        if part.delay:
            yield Stall(part.delay)
        yield piece


def pieces(text: str, count: int) -> list[str]:
    size = max(1, math.ceil(len(text) / max(1, count)))
    return [text[start : start + size] for start in range(0, len(text), size)]


def tokens(body: Body) -> int:
    """A believable size: four characters a token."""
    return math.ceil(len(json.dumps(body)) / 4)


def event(kind: str, **fields: Any) -> bytes:
    """A server-sent event with a name."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind} | fields)}\n\n".encode()


def data(fields: Body) -> bytes:
    """A server-sent event without a name."""
    return f"data: {json.dumps(fields)}\n\n".encode()
