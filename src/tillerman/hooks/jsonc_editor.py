"""JSON parser that records the position of every value, so that edits keep all other text.

Comments and trailing commas are accepted where the caller allows them.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec import Struct

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEEPEST = 100


class Invalid(ValueError):
    """The text is not valid JSON; the message names the line."""


class JsonNode(Struct, frozen=True):
    """A value with its start and end position."""

    value: Any  # for an object a dict of its members, for an array a list of nodes
    start: int
    end: int

    @property
    def plain(self) -> Any:
        if isinstance(self.value, dict):
            return {key: member.node.plain for key, member in self.value.items()}
        if isinstance(self.value, list):
            return [one.plain for one in self.value]
        return self.value


class JsonMember(Struct, frozen=True):
    start: int  # of its key
    node: JsonNode


def parse(text: str, *, comments: bool = False) -> JsonNode:
    reader = _Reader(text, comments)
    node = reader.value(reader.skip(0), 0)
    if (end := reader.skip(node.end)) != len(text):
        raise reader.error(end, "unexpected text after the value")
    return node


def after_space(text: str, at: int, *, comments: bool = False) -> int:
    """The position of the next character that is neither whitespace nor comment."""
    return _Reader(text, comments).skip(at)


class _Reader:
    def __init__(self, text: str, comments: bool) -> None:
        self.text = text
        self.comments = comments

    def error(self, at: int, why: str) -> Invalid:
        return Invalid(f"line {self.text.count(chr(10), 0, at) + 1}: {why}")

    def skip(self, at: int) -> int:
        """Skips whitespace, and comments where they are allowed."""
        while True:
            at = self._match(_SPACE, at) or at
            if not self.comments or not (end := self._match(_COMMENT, at)):
                return at
            at = end

    def value(self, at: int, depth: int) -> JsonNode:
        if depth > _DEEPEST:
            raise self.error(at, "nested too deeply")
        match self.text[at : at + 1]:
            case "{":
                return self._object(at, depth)
            case "[":
                return self._array(at, depth)
            case '"':
                return JsonNode(*self._string(at))
        end = self._match(_SCALAR, at)
        if not end:
            raise self.error(at, "a value is missing")
        return JsonNode(json.loads(self.text[at:end]), at, end)

    def _object(self, start: int, depth: int) -> JsonNode:
        members: dict[str, JsonMember] = {}
        at = self.skip(start + 1)
        while not self._at(at, "}"):
            key, begins, at = self._string(at)
            at = self.skip(at)
            if not self._at(at, ":"):
                raise self.error(at, f"a colon is missing after {key!r}")
            node = self.value(self.skip(at + 1), depth + 1)
            members.pop(key, None)  # of duplicate keys the last one counts
            members[key] = JsonMember(begins, node)
            at = self._next(node.end, "}")
        return JsonNode(members, start, at + 1)

    def _array(self, start: int, depth: int) -> JsonNode:
        items: list[JsonNode] = []
        at = self.skip(start + 1)
        while not self._at(at, "]"):
            items.append(self.value(at, depth + 1))
            at = self._next(items[-1].end, "]")
        return JsonNode(items, start, at + 1)

    def _next(self, at: int, end: str) -> int:
        """Skips the comma after a value, if there is one."""
        at = self.skip(at)
        if self._at(at, end):
            return at
        if not self._at(at, ","):
            raise self.error(at, f"a comma or {end} is missing")
        after = self.skip(at + 1)
        if self._at(after, end) and not self.comments:
            raise self.error(at, f"a comma before {end}")
        return after

    def _string(self, at: int) -> tuple[str, int, int]:
        end = self._match(_STRING, at)
        if not end:
            raise self.error(at, "a string is missing")
        try:
            return json.loads(self.text[at:end]), at, end
        except ValueError as error:
            raise self.error(at, str(error)) from None

    def _at(self, at: int, character: str) -> bool:
        return self.text[at : at + 1] == character

    def _match(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self.text, at)
        return found.end() if found else 0
