"""Compares the marks of protected files with an earlier scan, without listing folders."""

from __future__ import annotations

import os
from typing import NamedTuple

from tillerman.workspace.protection.protected_state import PathMark, State, mark_of

# File timestamps come from a clock with a resolution of some ms: a file changed just before a scan
# may change once more without a new timestamp.
_OLD_AFTER = 2_000_000_000


class MarkComparison(NamedTuple):
    """`state`: the earlier one with the marks of now. Other names may be in `changed` folders.

    `unsure`: also in one that had changed just before the earlier scan.
    """

    state: State
    changed: frozenset[str]
    unsure: bool


def compare_marks(root: int, before: State, at: int) -> MarkComparison | None:
    """None: a file changed, or a folder is another one. `at`: the time now."""
    changed, unsure = {}, False
    try:
        for path, known in before.folders.items():
            mark = mark_in(root, path or ".")
            if (mark.device, mark.inode) != (known.mark.device, known.mark.inode):
                return None
            if mark != known.mark:
                changed[path] = known._replace(mark=mark)
            unsure = unsure or not is_old(known.mark, before)
    except OSError:
        return None
    if not before.folders or not has_same_files(root, before):
        return None
    folders = {**before.folders, **changed} if changed else before.folders
    return MarkComparison(before._replace(at=at, folders=folders), frozenset(changed), unsure)


def has_same_files(root: int, before: State) -> bool:
    """Returns whether all protected and instruction files have their earlier marks."""
    try:
        latest = before.at - _OLD_AFTER
        for path, node in before.nodes.items():
            if mark_in(root, path) != node.mark or node.mark.changed >= latest:
                return False
        return all(mark_in(root, path) == mark for path, mark in before.instructions.items())
    except OSError:
        return False


def is_old(mark: PathMark, scan: State) -> bool:
    """Returns whether it was so old at the scan that any later change alters it."""
    return mark.changed + _OLD_AFTER < scan.at


def mark_in(root: int, path: str) -> PathMark:
    """A mark identifies a file, so it does not matter which links are on its path."""
    return mark_of(os.stat(path, dir_fd=root, follow_symlinks=False))
