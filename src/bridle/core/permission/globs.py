"""The patterns of rules: `*` in commands, names of servers and hosts; `*`, `**`, `?` in paths.

A backslash takes the meaning from the next character.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from bridle.core.permission.shell.script import ANY, HOLE, ONE, SIGNS

_SPECIAL = re.compile(r"([*?\\])")
_MOST_STEPS = 200_000


class Glob(Struct, frozen=True):
    """`head` is the text before the first `*`."""

    head: str
    regex: re.Pattern[str]

    def surely(self, text: str) -> bool:
        return text.startswith(self.head) and self.regex.fullmatch(text) is not None


@lru_cache(maxsize=8192)
def text_glob(pattern: str) -> Glob:
    """For commands and names. ` *` at the end also stands for nothing."""
    parts: list[str] = []
    head: list[str] = []
    literal = True
    for c, plain in _characters(pattern):
        if c == "*" and not plain:
            literal = False
            parts.append(".*")
        else:
            parts.append(_literal(c))
            if literal:
                head.append(c)
    regex = "".join(parts)
    if regex.endswith(r"\ .*"):
        regex = regex.removesuffix(r"\ .*") + r"(?:\ .*)?"
        if head[-1:] == [" "] and len(head) == len(parts) - 1:
            head.pop()
    return Glob(_until_sign(head), re.compile(regex, re.DOTALL))


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
            parts.append("[^/]*")
        elif c == "?" and not plain:
            parts.append("[^/]")
        else:
            parts.append(_literal(c))
        at += 1
    return re.compile("".join(parts) + ("(?:/.*)?" if below else ""), re.DOTALL)


def escaped(text: str) -> str:
    """A pattern for this text alone."""
    return _SPECIAL.sub(r"\\\1", text)


def _characters(pattern: str) -> list[tuple[str, bool]]:
    """Each with whether a backslash stood before it."""
    rest = iter(pattern)
    return [(next(rest, "\\"), True) if c == "\\" else (c, False) for c in rest]


def _literal(c: str) -> str:
    """What the shell would expand looks to people like what they wrote."""
    return {"*": rf"[*{ANY}]", "?": rf"[?{ONE}]"}.get(c) or re.escape(c)


def _until_sign(head: list[str]) -> str:
    text = "".join(head)
    return re.split(r"[*?]", text)[0]
