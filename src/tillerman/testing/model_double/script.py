"""Script of the scripted model: replies, failures, pauses and cut connections, as frozen data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

DEFAULT = ""
"""The scenario of a conversation whose user named none."""


class _Word(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag=str.lower):
    """Base class of the parts; in a JSON script, `type` is the lower-case class name."""


class Say(_Word, frozen=True):
    """A text block, streamed in `chunks` pieces or in these, with `delay` seconds before each."""

    text: str
    chunks: int | tuple[str, ...] = 3
    delay: float = 0.0


class Think(_Word, frozen=True):
    """A thinking block, streamed like `Say`."""

    text: str
    chunks: int = 2
    delay: float = 0.0


class ModelToolCall(_Word, frozen=True, tag="call"):
    """A tool call; without an id it gets one that no other reply uses."""

    name: str
    input: dict[str, Any] = msgspec.field(default_factory=dict)
    id: str | None = None


class Stall(_Word, frozen=True):
    """A pause of some seconds; the block before it stays open."""

    seconds: float


class ReplyHold(_Word, frozen=True, tag="hold"):
    """A pause until the test calls `release(name)`, at most `limit` seconds."""

    name: str
    limit: float = 30.0


class ConnectionCut(_Word, frozen=True, tag="cut"):
    """Closes the connection here, in the middle of the block before it.

    `after` gives the client time to read: some discard data that arrives together with the end.
    """

    after: float = 0.1


class Close(_Word, frozen=True):
    """Ends the reply here without a finish reason, and closes its connection properly."""


class Fail(_Word, frozen=True):
    """An API error: as a step an HTTP status, inside a reply an error in the stream.

    `kind` is `overflow`, `quota` or an API's native code; without one it follows from the status.
    """

    status: int
    kind: str | None = None
    message: str = "scripted failure"
    retry_after: float | None = None


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The token counts that a reply reports; `input` is uncached input."""

    input: int = 100
    output: int = 20
    cache_read: int = 0
    cache_write: int = 0


Part: TypeAlias = Say | Think | ModelToolCall | Stall | ReplyHold | ConnectionCut | Close | Fail


class ModelMessage(_Word, frozen=True, tag="reply"):
    """One message of the model; `stop` is derived from the parts unless given.

    `max_tokens` and `refusal` are encoded as in each API, other values are sent unchanged.
    """

    parts: tuple[Part, ...] = ()
    stop: str | None = None
    usage: Usage = Usage()


class Attempts(_Word, frozen=True):
    """Answers to the first, second, … request for the same step; the last one repeats."""

    steps: tuple[ModelMessage | Fail, ...]


Step: TypeAlias = ModelMessage | Fail | Attempts


class ModelRequest(msgspec.Struct, frozen=True):
    """A request that the model received, without its keys, and its routing.

    `kind` is `turn` (a step of a script), `summary` (of a long conversation), `background` (a
    request of the CLI itself: a title, a quota check), `count` (of tokens) or `probe` (anything
    else). `api` is the API it came by: `messages`, `responses`, `chat` or `gemini`.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    kind: str = "probe"
    scenario: str = DEFAULT
    step: int = 0
    attempt: int = 0
    api: str = ""


Script: TypeAlias = Sequence[Step] | Callable[[ModelRequest], Step]
Scenarios: TypeAlias = Mapping[str, Script]


def reply(*parts: Part, stop: str | None = None, usage: Usage | None = None) -> ModelMessage:
    """Shorthand for `ModelMessage`: `reply(Say("I look."), ModelToolCall("Bash", {...}))`."""
    return ModelMessage(parts, stop, usage or Usage())


def attempts(*steps: ModelMessage | Fail) -> Attempts:
    return Attempts(steps)


def overflow(tokens: int = 250_000, limit: int = 200_000) -> Fail:
    """The error of a conversation that exceeds its context window."""
    return Fail(400, "overflow", f"prompt is too long: {tokens} tokens > {limit} maximum")


def quota(message: str = "You have used up your quota.") -> Fail:
    """The error of an exhausted quota: retries are useless."""
    return Fail(429, "quota", message)


def read_scenarios(text: bytes | str) -> dict[str, tuple[Step, ...]]:
    """Decodes a script: `{"NAME": [{"type": "reply", "parts": [{"type": "say", …}]}, …], …}`."""
    scenarios: dict[str, tuple[Step, ...]] = msgspec.json.decode(
        text, type=dict[str, tuple[Step, ...]]
    )
    return scenarios
