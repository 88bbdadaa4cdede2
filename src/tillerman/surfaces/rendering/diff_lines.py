"""The lines of a diff with their numbers on both sides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tillerman.core.events import Diff
from tillerman.core.terminal_sanitizer import reveal
from tillerman.sessions.export.patch import hunks

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")


@dataclass(frozen=True)
class DiffLine:
    """One line of a diff; its number is None on a side that does not contain it."""

    kind: str  # " ", "+", "-", or "@" for a gap
    text: str
    old: int | None = None
    new: int | None = None


def numbered_lines(change: Diff, longest: int | None = None) -> Iterator[DiffLine]:
    """Control characters are shown; lines are cut at `longest` characters."""
    old, new, first = 1, 1, True
    lines = hunks(change, context=2)
    for line in (reveal(line).replace("\n", "␊") for line in lines):  # after hunks are computed
        mark, text = line[:1], line[1:][:longest].expandtabs(4)
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
            if not first:
                yield DiffLine("@", "⋯")
            first = False
        elif mark == "+":
            yield DiffLine("+", text, None, new)
            new += 1
        elif mark == "-":
            yield DiffLine("-", text, old, None)
            old += 1
        elif mark == "\\":
            yield DiffLine("@", text.strip())
        else:
            yield DiffLine(" ", text if mark == " " else line[:longest], old, new)
            old, new = old + 1, new + 1
