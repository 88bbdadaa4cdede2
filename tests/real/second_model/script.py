"""What the second scripted model sends, vendor-neutral: replies, failures, broken streams."""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec


class Text(msgspec.Struct, frozen=True, tag=True):
    """One message of the answer."""

    text: str


class Thought(msgspec.Struct, frozen=True, tag=True):
    """Reasoning that the service shows."""

    text: str


class Call(msgspec.Struct, frozen=True, tag=True):
    """A tool call. `raw` replaces the encoded arguments if their exact text matters."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None

    def encoded(self) -> str:
        return json.dumps(self.arguments, ensure_ascii=False) if self.raw is None else self.raw


Part = Text | Thought | Call


class Usage(msgspec.Struct, frozen=True):
    """Tokens of one request: `cached` is not part of `fresh`, `reasoning` is part of `output`."""

    fresh: int = 100
    output: int = 10
    cached: int = 0
    reasoning: int = 0


class Delivery(msgspec.Struct, frozen=True):
    """How the bytes of a reply arrive."""

    pieces: Literal["mixed", "small", "whole"] = "mixed"
    pause: float = 0.0
    """Seconds between two writes."""
    half: float = 0.0
    """Seconds in the middle of one event."""
    keep_alive: bool = False
    unknown: bool = False
    """Event types and fields that no published description names."""
    bytewise: bool = False
    """Writes of a few bytes, so that characters and lines are cut anywhere."""


class Reply(msgspec.Struct, frozen=True, tag=True):
    parts: tuple[Part, ...]
    stop: Literal["end", "length", "refusal"] = "end"
    usage: Usage = Usage()
    delivery: Delivery = Delivery()


class Failure(msgspec.Struct, frozen=True, tag=True):
    """An HTTP error instead of a stream."""

    status: int
    retry_after: int | None = None


class Broken(msgspec.Struct, frozen=True, tag=True):
    """A stream without its end: the connection drops, the body ends, or an error event arrives."""

    parts: tuple[Part, ...]
    ending: Literal["dropped", "ended", "error"] = "dropped"


Step = Reply | Failure | Broken

REASONS = {
    400: ("invalid_request_error", "INVALID_ARGUMENT", "The request is not valid."),
    401: ("authentication_error", "UNAUTHENTICATED", "The API key is not valid."),
    403: ("permission_error", "PERMISSION_DENIED", "This key may not use this resource."),
    404: ("not_found_error", "NOT_FOUND", "There is no such model."),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED", "Too many requests."),
    500: ("api_error", "INTERNAL", "An internal error occurred."),
    503: ("api_error", "UNAVAILABLE", "The service is unavailable."),
    529: ("overloaded_error", "UNAVAILABLE", "Overloaded"),
}
"""Status: Anthropic's and OpenAI's type, Google's status, a message."""
