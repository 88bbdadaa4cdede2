"""Splits a multi-line secret into lines and keys that are secrets by themselves."""

from __future__ import annotations

import re

SHORTEST_PIECE = 16
MOST_PIECES = 400  # each one is searched in all output

_BREAK = re.compile(r"[\r\n]+|(?:\\+[rn])+")  # some variables hold an escaped line break
_FRAME = re.compile(r"-{4,}|\W*\Z")  # -----BEGIN PRIVATE KEY-----, or only brackets
_APART = re.compile(r"[\s\"'`,;=]+")


def pieces_of(value: str) -> list[str]:
    """Returns the pieces; none for a value of one line."""
    lines = [line.strip(" \t\\\"'") for line in _BREAK.split(value)]
    if len(lines) < 2:
        return []
    pieces: dict[str, None] = {}
    for line in lines:
        if not _FRAME.match(line):
            pieces |= dict.fromkeys((line, *filter(_is_key, _APART.split(line))))
    long = (piece for piece in pieces if len(piece) >= SHORTEST_PIECE and len(set(piece)) >= 4)
    return list(long)[:MOST_PIECES]


def _is_key(word: str) -> bool:
    """Returns False for a word of prose and for a URL."""
    return any(map(str.isdigit, word)) and any(map(str.isalpha, word)) and "://" not in word
