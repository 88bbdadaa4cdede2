"""Pattern matching of rules: `*` in commands, servers and hosts; `*`, `**`, `?` in paths.

A backslash escapes the next character.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct

from tillerman.core.permission.shell.parsed_script import ANY, HOLE, ONE, SIGNS, WRITTEN

_SPECIAL = re.compile(r"([*?\\])")
_MOST_STEPS = 200_000


class Glob(Struct, frozen=True):
    """The literal pieces between one `*` and the next, searched one by one to bound the run time.

    `tail`: the pattern ends in ` *`, which also matches nothing.
    """

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
    """The pattern of commands and names."""
    pieces = [""]
    for c, plain in _characters(pattern):
        if c == "*" and not plain:
            pieces.append("")
        else:
            pieces[-1] += c
    tail = len(pieces) > 1 and pieces[-1] == "" and pieces[-2].endswith(" ")
    return Glob(tuple(pieces), tail)


def may_match(glob: Glob, pattern: str, text: str) -> bool:
    """Whether a text with placeholders could become one that the pattern matches."""
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
    if tokens[-2:] == [" ", None] and _may_overlap(tokens[:-2], text):
        return True
    return _may_overlap(tokens, text)


def _may_overlap(tokens: list[str | None], text: str) -> bool:
    """Whether any text matches both patterns."""
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
    """Adds the positions after each `*`, which may match nothing."""
    found = set(places)
    for at in sorted(places):
        place = at
        while place < len(tokens) and tokens[place] is None:
            place += 1
            found.add(place)
    return found


@lru_cache(maxsize=8192)
def path_glob(pattern: str, below: bool) -> re.Pattern[str]:
    """The regular expression of a path pattern; `below`: it also matches paths inside a match.

    Between one `**` and the next, only the first match is tried, since what follows may be
    anywhere after it: this bounds the run time of every pattern.
    """
    rest = pattern.removesuffix("/")
    first, *others = _runs(_characters(rest))
    parts = [f"(?>{_within(first[1], True)})" if others else _within(first[1], False)]
    for deep, run in others[:-1]:
        parts.append(f"(?>{'(?:.*?/)??' if deep else '.*?'}{_within(run, True)})")
    for deep, run in others[-1:]:
        parts.append(f"{'(?:.*/)?' if deep else '.*'}{_within(run, False)}")
    end = "(?:/.*)?" if below or rest != pattern else ""
    return re.compile("".join(parts) + end, re.DOTALL)


_Characters = list[tuple[str, bool]]


def _runs(characters: _Characters) -> list[tuple[bool, _Characters]]:
    """The parts between one `**` and the next; each with whether whole folders may precede it."""
    runs: list[tuple[bool, _Characters]] = [(False, [])]
    at = 0
    while at < len(characters):
        if characters[at : at + 2] != [("*", False)] * 2:
            runs[-1][1].append(characters[at])
            at += 1
            continue
        before, run = runs[-1]
        begins = at == 0 or characters[at - 1][0] == "/"
        deep = begins and characters[at + 2 : at + 3] == [("/", False)]
        at += 3 if deep else 2
        if not run and len(runs) > 1:  # `**/**/` is equivalent to one of them
            runs.pop()
            deep = deep and before
        runs.append((deep, []))
    return runs


def _within(run: _Characters, followed: bool) -> str:
    """The expression of a part within names; `followed` by a `**`."""
    parts: list[str] = []
    at = 0
    while at < len(run):
        if run[at] == ("*", False):
            text = _between_stars(run[at + 1 :], followed)
            literal = "".join(map(_one, text or ()))
            parts.append("[^/]*" if text is None else f"(?>[^/]*?{literal})")
            at += len(text or ())
        else:
            parts.append(_one(run[at]))
        at += 1
    return "".join(parts)


def _between_stars(following: _Characters, followed: bool) -> _Characters | None:
    """The text up to the next `*`, if it is within one name."""
    for at, (c, plain) in enumerate(following):
        if c == "*" and not plain:
            return following[:at]
        if c == "/":
            return None
    return following if followed else None


def paths_may_overlap(pattern: str, path: str) -> bool:
    """Whether a path with placeholders could become one that the pattern matches, or one below."""
    theirs = [_WILD.get(c, c) for c in path]
    ours = [c if plain else {"*": _NAMES, "?": _LETTER}.get(c, c) for c, plain in _characters(
        pattern.removesuffix("/"))]  # fmt: skip
    for at in range(len(ours) - 1):  # `**/` may match nothing: treated like `**`
        if ours[at : at + 2] == [_NAMES, _NAMES]:
            ours[at : at + 2] = [_ALL, _ALL]
            if ours[at + 2 : at + 3] == ["/"]:
                ours[at + 2] = _ALL
    if len(ours) * len(theirs) > _MOST_STEPS:
        return True
    return _share(ours, theirs) or _share([*ours, "/", _ALL], theirs)


# one letter of a name, any letters of a name, any text
_LETTER, _NAMES, _ALL = "one", "names", "all"
_WILD = {ONE: _LETTER, ANY: _NAMES, HOLE: _ALL}


def _share(ours: list[str], theirs: list[str]) -> bool:
    """Whether any path matches both. A shell glob does not match a leading dot."""
    seen = {(0, 0)}
    todo = [(0, 0)]
    while todo:
        a, b = todo.pop()
        if a == len(ours) and b == len(theirs):
            return True
        one = ours[a] if a < len(ours) else ""
        other = theirs[b] if b < len(theirs) else ""
        following: list[tuple[int, int]] = []
        hidden = (
            one == "." and other in (_LETTER, _NAMES) and _begins(ours, a) and _begins(theirs, b)
        )
        if one in (_NAMES, _ALL):
            following.append((a + 1, b))
            if other and (one == _ALL or other != "/"):
                following.append((a, b + 1))
        if other in (_NAMES, _ALL):
            following.append((a, b + 1))
            if one and not hidden and (other == _ALL or one != "/"):
                following.append((a + 1, b))
        if one and other and not hidden and (
            one == other or ("/" not in (one, other) and _LETTER in (one, other))
        ):  # fmt: skip
            following.append((a + 1, b + 1))
        for place in following:
            if place not in seen:
                seen.add(place)
                todo.append(place)
    return False


def _begins(path: list[str], at: int) -> bool:
    return at == 0 or path[at - 1] == "/"


def escaped(text: str) -> str:
    """The pattern that matches only this text."""
    return _SPECIAL.sub(r"\\\1", text)


def is_pattern(pattern: str) -> bool:
    """Whether it matches more than one text."""
    return any(c in "*?" and not plain for c, plain in _characters(pattern))


def _characters(pattern: str) -> _Characters:
    """The characters, each with whether a backslash escapes it."""
    rest = iter(pattern)
    return [(next(rest, "\\"), True) if c == "\\" else (c, False) for c in rest]


def _one(character: tuple[str, bool]) -> str:
    """One character; a placeholder of a shell glob matches the glob character as written."""
    match character:
        case ("?", False):
            return "[^/]"
        case ("*", _):
            return rf"[*{ANY}]"
        case ("?", _):
            return rf"[?{ONE}]"
    return re.escape(character[0])
