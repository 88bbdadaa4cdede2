"""Replaces unquoted `*`, `?` and `[…]` of a field by placeholders for what they may match."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE

Piece = tuple[str, bool]  # a text, and whether it was quoted
_LONGEST_CLASS = 40
HIDDEN = "dotglob"
DEEP = "globstar"
_SPECIAL = re.compile(r"[*?\[]")
_CLASS = {":": ":]", "=": "=]", ".": ".]"}
_COMPONENT_GLOB = re.compile(rf"(?:(?<=/)|^)[{ANY}{ONE}]")


def globbed(pieces: Sequence[Piece], options: frozenset[str]) -> str:
    """The field; a bracket becomes `*`, because it stays unchanged if nothing matches."""
    if not any(not quoted and _SPECIAL.search(text) for text, quoted in pieces):
        return "".join(text for text, _ in pieces)
    characters = [(c, quoted) for text, quoted in pieces for c in text]
    last = max((at for at, one in enumerate(characters) if one == ("]", False)), default=-1)
    found: list[str] = []
    at = 0
    while at < len(characters):
        c, quoted = characters[at]
        at += 1
        if quoted or c not in "*?[":
            found.append(c)
        elif c == "*":
            found.append(ANY)
        elif c == "?":
            found.append(ONE)
        elif at < last and (end := _bracket(characters, at)):
            found.append(ANY)
            at = end
        else:
            found.append(c)
    text = "".join(found)
    if "nocaseglob" in options:
        return HOLE
    if HIDDEN in options:
        text = _COMPONENT_GLOB.sub(HOLE, text)
    if DEEP in options:
        text = text.replace(ANY + ANY, HOLE)
    return text


def _bracket(characters: Sequence[Piece], at: int) -> int:
    """The position after the `]` that closes the bracket opened before `at`; 0 if none does."""
    if at < len(characters) and characters[at] in (("!", False), ("^", False)):
        at += 1
    first = at
    while at < len(characters):
        c, quoted = characters[at]
        if c == "/":
            return 0
        if c == "]" and not quoted and at > first:
            return at + 1
        if c == "[" and not quoted and at + 1 < len(characters):
            close = _CLASS.get(characters[at + 1][0])
            rest = "".join(one for one, _ in characters[at + 2 : at + 2 + _LONGEST_CLASS])
            end = rest.find(close) if close else -1
            if end >= 0 and "/" not in rest[:end]:
                at += 2 + end + 2
                continue
        at += 1
    return 0
