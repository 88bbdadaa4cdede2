"""Lines of a patch for a diff: the agent's own patch, or computed from both texts."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.core.events import Diff

COMPARE_CAP = 2_000  # differing lines of two texts: comparing them is quadratic
_HEADER = 2  # header lines of a computed patch


def patch(diff: Diff, context: int = 3) -> list[str]:
    """Returns the patch with its header, which names the file."""
    if diff.patch is not None:
        return diff.patch.removesuffix("\n").split("\n")
    old, new = _lines(diff.old or ""), _lines(diff.new or "")
    start = _alike(old, new)
    end = _alike(old[start:][::-1], new[start:][::-1])
    differing = max(len(old), len(new)) - start - end
    if differing > COMPARE_CAP:
        return [_counts(old, new)]
    if not differing:
        return []
    from difflib import unified_diff

    skipped = max(0, start - context)  # equal lines are not compared, but counted
    ours, theirs = (one[skipped : len(one) - max(0, end - context)] for one in (old, new))
    lines = unified_diff(ours, theirs, diff.path, diff.path, lineterm="", n=context)
    return [_moved(line, skipped) if line.startswith("@@ ") else line for line in lines]


def hunks(diff: Diff, context: int = 3) -> list[str]:
    """Returns the patch without its header, found by position: a changed line may look like one."""
    lines = patch(diff, context)
    if diff.patch is None:
        return lines if len(lines) <= 1 else lines[_HEADER:]
    first = next((at for at, line in enumerate(lines) if line.startswith("@@")), 0)
    return lines[first:]


def _lines(text: str) -> list[str]:
    """Splits at newlines only, as editors and git do."""
    return text.removesuffix("\n").split("\n") if text else []


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """The number of equal lines at the beginning."""
    differ = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


def _moved(head: str, by: int) -> str:
    """Shifts the line numbers of a hunk header such as `@@ -1,4 +1,5 @@`."""
    if not by:
        return head
    parts = []
    for part in head.split(" ")[1:3]:
        number, comma, count = part[1:].partition(",")
        parts.append(f"{part[0]}{int(number) + by}{comma}{count}")
    return f"@@ {' '.join(parts)} @@"


def _counts(old: Sequence[str], new: Sequence[str]) -> str:
    return f"{len(old)} lines before, {len(new)} after"
