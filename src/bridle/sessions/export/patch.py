"""A change as the lines of a patch: the agent's own, or worked out from both texts."""

from __future__ import annotations

from bridle.core.events import Diff

COMPARE_CAP = 2_000  # lines of a file whose change we work out ourselves: comparing is quadratic
_HEADER = 2  # lines of one that we work out


def patch(diff: Diff, context: int = 3) -> list[str]:
    """With its header, which names the file."""
    if diff.patch is not None:
        return diff.patch.splitlines()
    old, new = (diff.old or "").splitlines(), (diff.new or "").splitlines()
    if max(len(old), len(new)) > COMPARE_CAP:
        return [_counts(old, new)]
    from difflib import unified_diff

    return list(unified_diff(old, new, diff.path, diff.path, lineterm="", n=context))


def hunks(diff: Diff, context: int = 3) -> list[str]:
    """Without the header, which is told by its place: a changed line may begin as one does."""
    lines = patch(diff, context)
    if diff.patch is None:
        return lines if len(lines) <= 1 else lines[_HEADER:]
    first = next((at for at, line in enumerate(lines) if line.startswith("@@")), 0)
    return lines[first:]


def _counts(old: list[str], new: list[str]) -> str:
    return f"{len(old)} lines before, {len(new)} after"
