"""Unified diff of two texts, bounded in length and cost."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import TypeAlias

from msgspec import Struct

from tillerman.workspace.files.content.text_decoding import lines_of

MOST_COMPARED = 800  # lines on either side, without their common prefix and suffix
MOST_LINES = 400
MOST_TEXT = 20_000
_AROUND = 3

_Step: TypeAlias = tuple[str, int, int, int, int]


class UnifiedDiff(Struct, frozen=True):
    text: str = ""
    added: int = 0
    removed: int = 0
    left_out: int = 0  # lines of the diff


def difference(path: str, before: str | None, after: str | None) -> UnifiedDiff:
    """Returns the diff. None stands for a file that does not exist."""
    old, new = lines_of(before or ""), lines_of(after or "")
    steps = _steps(old, new)
    changed = [step for step in steps if step[0] != "equal"]
    lines = [
        f"--- {'/dev/null' if before is None else f'a/{path}'}",
        f"+++ {'/dev/null' if after is None else f'b/{path}'}",
    ]
    for hunk in _hunks(steps):
        lines += _hunk(hunk, old, new)
    shown, room = 0, MOST_TEXT
    for line in lines[:MOST_LINES]:
        room -= len(line) + 1
        if room < 0:
            break
        shown += 1
    return UnifiedDiff(
        "\n".join(lines[:shown]) + "\n" if changed else "",
        added=sum(d - c for _, _, _, c, d in changed),
        removed=sum(b - a for _, a, b, _, _ in changed),
        left_out=len(lines) - shown,
    )


def _steps(old: list[str], new: list[str]) -> list[_Step]:
    shorter = min(len(old), len(new))
    head = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    rest = shorter - head
    tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    if max(len(a), len(b)) <= MOST_COMPARED:
        middle: list[_Step] = list(SequenceMatcher(None, a, b).get_opcodes())
    else:  # matching two long texts can take minutes
        middle = [("replace", 0, len(a), 0, len(b))]
    steps: list[_Step] = [("equal", 0, head, 0, head)]
    steps += [(kind, p + head, q + head, r + head, s + head) for kind, p, q, r, s in middle]
    steps.append(("equal", len(old) - tail, len(old), len(new) - tail, len(new)))
    return [step for step in steps if step[1] < step[2] or step[3] < step[4]]


def _hunks(steps: list[_Step]) -> Iterator[list[_Step]]:
    """Groups nearby changes, with some lines of context."""
    hunk: list[_Step] = []
    for at, (kind, a, b, c, d) in enumerate(steps):
        if kind != "equal":
            hunk.append((kind, a, b, c, d))
            continue
        if hunk:
            short = b - a <= 2 * _AROUND and at < len(steps) - 1
            end = b - a if short else min(b - a, _AROUND)
            hunk.append((kind, a, a + end, c, c + end))
            if short:
                continue
            yield hunk
        back = min(b - a, _AROUND)
        hunk = [(kind, b - back, b, d - back, d)] if at < len(steps) - 1 else []
    if hunk:
        yield hunk


def _hunk(steps: list[_Step], old: list[str], new: list[str]) -> Iterator[str]:
    a, b, c, d = steps[0][1], steps[-1][2], steps[0][3], steps[-1][4]
    yield f"@@ -{_span(a, b)} +{_span(c, d)} @@"
    for kind, p, q, r, s in steps:
        if kind == "equal":
            yield from _marked(" ", old[p:q])
        else:
            yield from _marked("-", old[p:q])
            yield from _marked("+", new[r:s])


def _span(start: int, end: int) -> str:
    length = end - start
    return f"{start + bool(length)},{length}" if length != 1 else str(start + 1)


def _marked(sign: str, lines: list[str]) -> Iterator[str]:
    for line in lines:
        yield sign + line.rstrip("\r\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"
