"""Registry of secrets, and redaction of bytes, texts and events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from tillerman.supervision.secrets.key_patterns import (
    LONGEST_SHAPE,
    KeyPattern,
    beginning_of_shape,
    shapes_in,
)
from tillerman.supervision.secrets.multiline import pieces_of
from tillerman.supervision.secrets.search_index import SecretIndex
from tillerman.supervision.secrets.secret_forms import SecretForm, forms_of

if TYPE_CHECKING:
    from tillerman.core.events import Event

SHORTEST = 8
WINDOW = 256 * 1024  # bytes that are searched at once
_TRIVIAL = {
    "password", "changeme", "disabled", "required", "optional", "anonymous", "username",
    "localhost", "undefined", "production", "development", "external", "internal", "keychain",
}  # fmt: skip


class Span(NamedTuple):
    start: int
    end: int
    name: str


class Secrets:
    """Values registered by name, together with the patterns of well-known keys."""

    def __init__(self, values: Mapping[str, str] = {}) -> None:
        self._values: dict[str, str] = {}  # value -> name; the first name stays
        self._index: SecretIndex | None = None
        for name, value in values.items():
            self.register(name, value)

    def register(self, name: str, value: str) -> bool:
        """Registers a value. Returns False if it is too short or too common to search for."""
        value = value.strip(" \t\r\n\\\"'")
        if len(value) < SHORTEST or value.lower() in _TRIVIAL or len(set(value)) < 4:
            return False
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        for one in (value, *pieces_of(value)):
            if one not in self._values:
                self._values[one] = name
                self._index = None
        return True

    @property
    def longest(self) -> int:
        """Returns the maximum length of a secret in bytes, in any of its forms."""
        return max(LONGEST_SHAPE, self.index.longest)

    @property
    def names(self) -> list[str]:
        return sorted(set(self._values.values()))

    def finds(self, data: bytes) -> bool:
        """Returns whether the data may hold a secret; long data is not copied as a whole."""
        if len(data) <= WINDOW:
            return next(self.spans(data), None) is not None
        overlap = self.longest
        window = max(WINDOW, 2 * overlap)
        return any(
            next(self.spans(data[start : start + window]), None) is not None
            for start in range(0, len(data), window - overlap)
        )

    def redact(self, data: bytes) -> bytes:
        """Redacts data; JSON stays valid JSON."""
        spans = list(self.spans(data))
        if not spans:
            return data
        redacted = substitute(data, spans)
        return (
            self._repaired_json(data, redacted) if data.lstrip()[:1] in (b"{", b"[") else redacted
        )

    def redact_text(self, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        spans = list(self.spans(data))
        return substitute(data, spans).decode("utf-8", "surrogatepass") if spans else text

    def redact_event(self, event: Event) -> Event:
        import msgspec

        from tillerman.core.events import Unrecognized, encode

        encoded = encode(event)
        if not self.finds(encoded):
            return event
        plain = msgspec.to_builtins(event)
        for redacted in (self._without(plain), self.redact_value(plain)):
            try:
                return msgspec.convert(redacted, type(event))
            except msgspec.ValidationError:
                continue  # a number or a fixed value was mistaken for a secret
        return Unrecognized(raw=self.redact(encoded).decode(), why="a secret stood in its frame")

    def redact_value(self, value: Any) -> Any:
        """Redacts strings and keys inside dicts and lists; other values stay.

        The whole value is searched once as JSON, whose escapes every form allows for. A value
        without secrets, the usual case, is returned unchanged.
        """
        import msgspec

        try:
            encoded = msgspec.json.encode(value)
        except (TypeError, ValueError):  # not JSON, such as a lone surrogate
            return self._redact_each(value)
        return self._redact_each(value) if self.finds(encoded) else value

    def _redact_each(self, value: Any) -> Any:
        match value:
            case str():
                return self.redact_text(value)
            case dict():
                return {self._redact_each(k): self._redact_each(v) for k, v in value.items()}
            case list() | tuple():
                return [self._redact_each(item) for item in value]
            case _:
                return value

    def spans(self, text: bytes, start: int = 0) -> Iterator[Span]:
        """Yields the secrets from left to right; of two with the same start, the longer one."""
        finders: list[SecretForm | KeyPattern] = [*self.index.candidates(text), *shapes_in(text)]
        nearest: list[tuple[int, int, int]] = []
        for number, finder in enumerate(finders):
            if match := finder.pattern.search(text, start):
                nearest.append((match.start(), -match.end(), number))
        while nearest:
            begin, minus_end, number = min(nearest)
            yield Span(begin, -minus_end, finders[number].name)
            passed = [near for near in nearest if near[0] < -minus_end]
            nearest = [near for near in nearest if near[0] >= -minus_end]
            for _, _, other in passed:
                if match := finders[other].pattern.search(text, -minus_end):
                    nearest.append((match.start(), -match.end(), other))

    def beginning(self, text: bytes, start: int) -> int:
        """Returns where a secret may start that the end of the text cuts off; else its length."""
        return min(self.index.beginning(text, start), beginning_of_shape(text, start))

    @property
    def index(self) -> SecretIndex:
        if self._index is None:
            self._index = SecretIndex(
                form for value, name in self._values.items() for form in forms_of(name, value)
            )
        return self._index

    def _repaired_json(self, data: bytes, redacted: bytes) -> bytes:
        """Redacts by value if the JSON broke: a number or escape cannot be replaced in place."""
        try:
            json.loads(redacted)
            return redacted
        except (ValueError, RecursionError):
            pass
        try:
            return json.dumps(self._without(json.loads(data)), separators=(",", ":")).encode()
        except (ValueError, RecursionError):
            return redacted  # it was not JSON in the first place

    def _without(self, value: Any) -> Any:
        match value:
            case dict():
                return {str(self._without(k)): self._without(v) for k, v in value.items()}
            case list():
                return [self._without(item) for item in value]
        written = json.dumps(value).encode()
        spans = list(self.spans(written))
        if not spans:
            return value
        try:
            return json.loads(substitute(written, spans))
        except ValueError:
            return marker(spans[0].name).decode()


def marker(name: str) -> bytes:
    """Returns the replacement of a secret; ASCII that needs no escaping in JSON."""
    return f"[secret:{name}]".encode()


def substitute(text: bytes, spans: list[Span]) -> bytes:
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.start], marker(span.name)]
        end = span.end
    return b"".join([*parts, text[end:]])
