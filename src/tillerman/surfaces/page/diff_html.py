"""A diff as HTML: one markup that the style sheet lays out side by side, or unified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from tillerman.core.events import Diff
from tillerman.surfaces.page.code_html import Line, file_lines, line_html
from tillerman.surfaces.page.html_text import escaped
from tillerman.surfaces.rendering.diff_lines import DiffLine, numbered_lines

MOST_LINES = 2_000
_SAME = 0.4  # of a line: with less in common, all of it counts as changed


def diff_html(change: Diff) -> str:
    lines = list(numbered_lines(change))
    added, removed = line_counts(lines)
    left_out = len(lines) - MOST_LINES
    body = "".join(_groups(lines[:MOST_LINES], change.path))
    if left_out > 0:
        body += f'<div class="gap"><span>{left_out} more lines</span></div>'
    name = f"Change of {change.path}: {_lines(added)} added, {removed} removed"
    return f'<div class="diff" role="group" aria-label="{escaped(name)}">{body}</div>'


def counts_html(added: int, removed: int) -> str:
    parts = []
    if added:
        parts.append(f'<span class="add">+{added}</span>')
    if removed:
        parts.append(f'<span class="del">−{removed}</span>')
    return " ".join(parts)


def line_counts(lines: Sequence[DiffLine]) -> tuple[int, int]:
    kinds = [line.kind for line in lines]
    return kinds.count("+"), kinds.count("-")


def _groups(lines: Sequence[DiffLine], path: str) -> Iterator[str]:
    old = _colored([line for line in lines if line.kind in " -"], path)
    new = _colored([line for line in lines if line.kind in " +"], path)
    for kind, group in groupby(lines, key=lambda line: "chg" if line.kind in "+-" else line.kind):
        members = list(group)
        if kind == "@":
            texts = ("" if one.text == "⋯" else one.text for one in members)
            shown = next(filter(None, texts), "lines that are the same")
            yield f'<div class="gap"><span>{escaped(shown)}</span></div>'
        elif kind == "chg":
            yield f'<div class="chg">{"".join(_changed(members, old, new))}</div>'
        else:
            yield f'<div class="ctx">{"".join(_same(members, old, new))}</div>'


def _colored(lines: Sequence[DiffLine], path: str) -> dict[int, Line]:
    """By the identity of a line: both sides are colored as the files that they are."""
    colored = file_lines([line.text for line in lines], path)
    return {id(line): found for line, found in zip(lines, colored, strict=True)}


def _same(lines: Sequence[DiffLine], old: dict[int, Line], new: dict[int, Line]) -> Iterator[str]:
    for line in lines:
        left, right = line_html(old[id(line)]), line_html(new[id(line)])
        yield f'<div class="l o" aria-hidden="true" data-n="{line.old}"><code>{left}</code></div>'
        yield f'<div class="l n" data-n="{line.new}"><code>{right}</code></div>'


def _changed(
    lines: Sequence[DiffLine], old: dict[int, Line], new: dict[int, Line]
) -> Iterator[str]:
    removed = [line for line in lines if line.kind == "-"]
    added = [line for line in lines if line.kind == "+"]
    for at in range(max(len(removed), len(added))):
        before = removed[at] if at < len(removed) else None
        after = added[at] if at < len(added) else None
        marks = _marks(before.text, after.text) if before and after else ((0, 0), (0, 0))
        if before:
            code = line_html(old[id(before)], marks[0])
            yield f'<del class="l del" data-n="{before.old}"><code>{code}</code></del>'
        if after:
            code = line_html(new[id(after)], marks[1])
            yield f'<ins class="l add" data-n="{after.new}"><code>{code}</code></ins>'


def _marks(before: str, after: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """The parts that differ; none if the lines have little in common."""
    start = _common(before, after)
    rest = min(len(before), len(after)) - start
    end = min(rest, _common(before[::-1], after[::-1]))
    if start + end < _SAME * max(len(before), len(after)):
        return (0, 0), (0, 0)
    return (start, len(before) - end), (start, len(after) - end)


def _common(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _lines(count: int) -> str:
    return f"{count} line{'s' if count != 1 else ''}"
