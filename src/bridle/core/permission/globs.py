"""The patterns of rules: `*` in commands, names of servers and hosts; `*`, `**`, `?` in paths.

A backslash takes the meaning from the next character.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from bridle.core.permission.shell.script import ANY, HOLE, ONE, SIGNS, WRITTEN

_SPECIAL = re.compile(r"([*?\\])")
_MOST_STEPS = 200_000


class Glob(Struct, frozen=True):
    """The pieces of text between one `*` and the next; found one by one, so that no text and no
    pattern takes long. `tail`: it ends in ` *`, which also stands for nothing."""

    pieces: tuple[str, ...]
    tail: bool

    @property
    def head(self) -> str:
        return self.pieces[0].removesuffix(" ") if self.tail else self.pieces[0]

    def surely(self, text: str) -> bool:
        if not text.isascii():
            text = text.translate(WRITTEN)
        return self._fits(text) or (self.tail and self._fits(f"{text} "))

    def _fits(self, text: str) -> bool:
        first, *middle = self.pieces
        if not middle:
            return text == first
        last = middle.pop()
        if not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in middle:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return at <= end


@lru_cache(maxsize=8192)
def text_glob(pattern: str) -> Glob:
    """For commands and names."""
    pieces = [""]
    for c, plain in _characters(pattern):
        if c == "*" and not plain:
            pieces.append("")
        else:
            pieces[-1] += c
    tail = len(pieces) > 1 and pieces[-1] == "" and pieces[-2].endswith(" ")
    return Glob(tuple(pieces), tail)


def may_match(glob: Glob, pattern: str, text: str) -> bool:
    """Whether a text with signs could come out as one that the pattern matches."""
    first = min((at for at in map(text.find, SIGNS) if at >= 0), default=-1)
    if first < 0:
        return False
    shared = min(first, len(glob.head))
    if text[:shared] != glob.head[:shared]:
        return False
    tokens: list[str | None] = [
        None if c == "*" and not plain else c for c, plain in _characters(pattern)
    ]
    if len(tokens) * len(text) > _MOST_STEPS:
        return True
    if tokens[-2:] == [" ", None] and _meet(tokens[:-2], text):
        return True
    return _meet(tokens, text)


def _meet(tokens: list[str | None], text: str) -> bool:
    """Both are patterns: does any text match both?"""
    reached = _closed({0}, tokens)
    for c in text:
        if c in (HOLE, ANY):
            reached = set(range(min(reached, default=0), len(tokens) + 1)) if reached else reached
            continue
        following: set[int] = set()
        for at in reached:
            if at < len(tokens):
                token = tokens[at]
                if token is None:
                    following.add(at)
                elif c in (token, ONE):
                    following.add(at + 1)
        reached = _closed(following, tokens)
        if not reached:
            return False
    return len(tokens) in reached


def _closed(places: set[int], tokens: list[str | None]) -> set[int]:
    """A `*` may stand for nothing."""
    found = set(places)
    for at in sorted(places):
        place = at
        while place < len(tokens) and tokens[place] is None:
            place += 1
            found.add(place)
    return found


@lru_cache(maxsize=8192)
def path_glob(pattern: str, below: bool) -> re.Pattern[str]:
    """`below`: what lies in a folder that it matches is matched too."""
    rest = pattern.removesuffix("/")
    below = below or rest != pattern
    parts: list[str] = []
    characters = list(_characters(rest))
    at = 0
    while at < len(characters):
        c, plain = characters[at]
        stars = not plain and c == "*" and characters[at + 1 : at + 2] == [("*", False)]
        if stars and characters[at + 2 : at + 3] == [("/", False)]:
            parts.append("(?:.*/)?")
            at += 2
        elif stars:
            parts.append(".*")
            at += 1
        elif c == "*" and not plain:
            run = _between_stars(characters[at + 1 :])
            # the first place will do where another star follows: no need to try the others
            literal = "".join(_literal(one) for one, _ in run)
            parts.append(f"(?>[^/]*?{literal})" if run else "[^/]*")
            at += len(run)
        elif c == "?" and not plain:
            parts.append("[^/]")
        else:
            parts.append(_literal(c))
        at += 1
    return re.compile("".join(parts) + ("(?:/.*)?" if below else ""), re.DOTALL)


def _between_stars(following: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """The text up to the next `*`, if it is within one name."""
    for at, (c, plain) in enumerate(following):
        if c == "*" and not plain:
            return following[:at]
        if c == "/" or (c == "?" and not plain):
            break
    return []


def escaped(text: str) -> str:
    """A pattern for this text alone."""
    return _SPECIAL.sub(r"\\\1", text)


def is_pattern(pattern: str) -> bool:
    """Whether it stands for more than one text."""
    return any(c in "*?" and not plain for c, plain in _characters(pattern))


def _characters(pattern: str) -> list[tuple[str, bool]]:
    """Each with whether a backslash stood before it."""
    rest = iter(pattern)
    return [(next(rest, "\\"), True) if c == "\\" else (c, False) for c in rest]


def _literal(c: str) -> str:
    """What the shell would expand looks to people like what they wrote."""
    return {"*": rf"[*{ANY}]", "?": rf"[?{ONE}]"}.get(c) or re.escape(c)
