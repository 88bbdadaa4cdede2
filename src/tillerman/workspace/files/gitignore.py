"""Matches paths with .gitignore rules like git, at bounded cost for any pattern.

Git itself is not used: it may be missing, it works by path and not by descriptor, and it reads the
repository's config. A pattern becomes small regular expressions without backtracking.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

MOST_BYTES = 1 << 18  # of one file
_MOST_PATTERNS = 5_000

_CLASSES = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "blank": r" \t", "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9", "graph": r"\x21-\x7e", "lower": "a-z", "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~", "space": r"\s", "upper": "A-Z", "xdigit": "0-9A-Fa-f",
}  # fmt: skip


class _Bad(Exception):
    """A pattern that matches nothing."""


class Pattern(NamedTuple):
    parts: tuple[re.Pattern[str] | None, ...]  # None: `**`, any number of folders
    negated: bool
    folders_only: bool
    by_name: bool  # in any folder

    def matches(self, names: Sequence[str]) -> bool:
        if self.by_name:
            only = self.parts[0]
            return only is not None and only.fullmatch(names[-1]) is not None
        return _match(self.parts, names)


class IgnoreRules(NamedTuple):
    """The rules of one folder, `depth` names below the root."""

    depth: int
    patterns: tuple[Pattern, ...]


def parse(data: bytes, depth: int) -> IgnoreRules:
    found = []
    lines = data[:MOST_BYTES].removeprefix(b"\xef\xbb\xbf").split(b"\n")
    for line in lines[:_MOST_PATTERNS]:
        text = line.removesuffix(b"\r").decode("latin-1")
        if pattern := _pattern(text):
            found.append(pattern)
    return IgnoreRules(depth, tuple(found))


def is_ignored(chain: Iterable[IgnoreRules], names: Sequence[str], folder: bool) -> bool:
    """Decides for a path in folders that are not ignored; `chain`: rules from the root down."""
    raw = [os.fsencode(name).decode("latin-1") for name in names]
    for rules in reversed(list(chain)):
        inner = raw[rules.depth :]
        for pattern in reversed(rules.patterns):
            if (folder or not pattern.folders_only) and pattern.matches(inner):
                return not pattern.negated
    return False


def glob(pattern: str) -> re.Pattern[str]:
    """Compiles a glob of one name: `*`, `?` and `[…]`."""
    try:
        return _expression(pattern)
    except _Bad:
        return _expression(re.sub(r"([\[\\])", r"\\\1", pattern))


def path_glob(pattern: str) -> Callable[[Sequence[str]], bool]:
    """Compiles a glob of a whole path: `**` matches any number of folders."""
    anchored = pattern.removeprefix("/")
    try:
        parts = _path_parts(anchored)
    except _Bad:
        parts = _path_parts(re.sub(r"([\[\\])", r"\\\1", anchored))
    return lambda names: _match(parts, names)


def _pattern(line: str) -> Pattern | None:
    if line.startswith("#"):
        return None
    line = _without_spaces(line)
    negated = line.startswith("!")
    if negated:
        line = line[1:]
    folders_only = line.endswith("/")
    line = line.removesuffix("/")
    if not line:
        return None
    by_name = "/" not in line
    try:
        if by_name:
            return Pattern((_expression(line),), negated, folders_only, by_name)
        parts = _path_parts(line.removeprefix("/"))
    except _Bad:
        return None
    return Pattern(parts, negated, folders_only, by_name)


def _path_parts(line: str) -> tuple[re.Pattern[str] | None, ...]:
    words = re.sub(r"\\(.)", lambda one: "/" if one[1] == "/" else one[0], line).split("/")
    parts: list[re.Pattern[str] | None] = []
    for at, word in enumerate(words):
        if word != "**":
            parts.append(_expression(word))
        elif at == len(words) - 1:
            parts += [None, _expression("*")]  # the content, but not the folder itself
        elif parts[-1:] != [None]:
            parts.append(None)
    return tuple(parts)


def _without_spaces(line: str) -> str:
    """Strips trailing spaces, except for one after a backslash."""
    kept = line.rstrip(" ")
    bars = len(kept) - len(kept.rstrip("\\"))
    return f"{kept} " if bars % 2 and len(kept) < len(line) else kept


def _match(parts: Sequence[re.Pattern[str] | None], names: Sequence[str]) -> bool:
    """Matches parts with names.

    Each `**` takes as little as possible, so only the last backtracks.
    """
    at = name = 0
    star, taken = -1, 0
    while name < len(names):
        part = parts[at] if at < len(parts) else re.compile(r"(?!)")
        if part is None:
            star, taken = at, name
            at += 1
        elif part.fullmatch(names[name]):
            at, name = at + 1, name + 1
        elif star >= 0:
            taken += 1
            at, name = star + 1, taken
        else:
            return False
    return all(part is None for part in parts[at:])


def _expression(word: str) -> re.Pattern[str]:
    """Compiles a name pattern. Pieces between stars match at their first position only."""
    pieces: list[str] = [""]
    at = 0
    while at < len(word):
        c = word[at]
        at += 1
        if c == "*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append("")
        elif c == "?":
            pieces[-1] += "."
        elif c == "[":
            piece, at = _bracket(word, at)
            pieces[-1] += piece
        else:
            if c == "\\":
                if at == len(word):
                    raise _Bad
                c, at = word[at], at + 1
            pieces[-1] += re.escape(c)
    first, *rest = pieces
    if not rest:
        return re.compile(first, re.DOTALL)
    *middle, last = rest
    atoms = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    return re.compile(f"{first}{atoms}.*{last}", re.DOTALL)


def _bracket(word: str, at: int) -> tuple[str, int]:
    negated = word[at : at + 1] in ("!", "^")
    at += negated
    inside, first = "", True
    while first or word[at : at + 1] != "]":
        first = False
        if word.startswith("[:", at):
            end = word.find(":]", at)
            name = word[at + 2 : end] if end > 0 else ""
            if name not in _CLASSES:
                raise _Bad
            inside, at = inside + _CLASSES[name], end + 2
            continue
        low, at = _character(word, at)
        if word[at : at + 1] == "-" and word[at + 1 : at + 2] not in ("]", ""):
            high, at = _character(word, at + 1)
            if low <= high:
                inside += f"{re.escape(low)}-{re.escape(high)}"
        else:
            inside += re.escape(low)
    if not inside:
        return ("." if negated else r"(?!)"), at + 1
    return f"[{'^' if negated else ''}{inside}]", at + 1


def _character(word: str, at: int) -> tuple[str, int]:
    if word[at : at + 1] == "\\":
        at += 1
    if at >= len(word):
        raise _Bad
    return word[at], at + 1
