"""Brace expansion: `a{b,c}` becomes two words, before all other expansions."""

from __future__ import annotations

import re
from itertools import islice, pairwise

from tillerman.core.permission.shell.parsed_script import HOLE
from tillerman.core.permission.shell.parsing.syntax import Literal, Part, Parts, UnparsableCommand

_MOST = 64  # maximum number of words from one word
_SEQUENCE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")

_Item = str | Part  # one unquoted character, or a part that is not expanded


def expand_braces(parts: Parts) -> list[Parts]:
    plain = [part.text for part in parts if isinstance(part, Literal) and not part.quoted]
    if not any("{" in text for text in plain):
        return [parts]
    items: list[_Item] = []
    for part in parts:
        if isinstance(part, Literal) and not part.quoted:
            items += part.text
        else:
            items.append(part)
    if items.count("{") > 4 * _MOST:
        raise UnparsableCommand("a brace expansion to too many words")
    done: list[list[_Item]] = []
    waiting = [items]
    while waiting:
        one = waiting.pop()
        found = _first_list(one)
        if found is None:
            done.append(one)
        else:
            waiting += reversed(found)
        if len(done) + len(waiting) > _MOST:
            raise UnparsableCommand("a brace expansion to too many words")
    return [_parts(one) for one in done]


def _parts(items: list[_Item]) -> Parts:
    parts: list[Part] = []
    text = ""
    for item in items:
        if isinstance(item, str):
            text += item
            continue
        if text:
            parts.append(Literal(text))
            text = ""
        parts.append(item)
    if text:
        parts.append(Literal(text))
    return tuple(parts)


def _first_list(items: list[_Item]) -> list[list[_Item]] | None:
    closes = _closing(items)
    for start, item in enumerate(items):
        if item != "{" or start not in closes:
            continue
        commas, end = closes[start]
        head, tail = items[:start], items[end + 1 :]
        if commas:
            bounds = [start, *commas, end]
            return [head + items[a + 1 : b] + tail for a, b in pairwise(bounds)]
        inside = items[start + 1 : end]
        if all(isinstance(one, str) for one in inside):
            match = _SEQUENCE.fullmatch("".join(map(str, inside)))
            if match:
                return [[*head, *one, *tail] for one in _sequence(match[1], match[2], match[0])]
    return None


def _closing(items: list[_Item]) -> dict[int, tuple[list[int], int]]:
    """For each closed brace: its commas, and the position where it closes."""
    found: dict[int, tuple[list[int], int]] = {}
    opened: list[tuple[int, list[int]]] = []
    for at, item in enumerate(items):
        if item == "{":
            opened.append((at, []))
        elif item == "," and opened:
            opened[-1][1].append(at)
        elif item == "}" and opened:
            start, commas = opened.pop()
            found[start] = (commas, at)
    return found


def _sequence(first: str, last: str, text: str) -> list[list[_Item]]:
    if text.count("..") > 1 or first.isalpha() != last.isalpha() or first[:1] in "-0":
        return [[Literal(HOLE)]]
    a, b = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
    numbers = list(islice(range(a, b + 1) if a <= b else range(a, b - 1, -1), _MOST + 1))
    if len(numbers) > _MOST or last.startswith("0"):
        return [[Literal(HOLE)]]
    if first.isalpha():
        return [[Literal(chr(number), quoted=True)] for number in numbers]
    return [[Literal(str(number), quoted=True)] for number in numbers]
