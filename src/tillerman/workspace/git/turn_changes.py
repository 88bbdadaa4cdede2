"""Detects the files that a turn changed, by snapshots of the workspace before and after.

It reports changes by any process. The session awaits `snapshot` before it sends the prompt: a
snapshot still being taken while the agent writes would miss its first edits. The agent may start
meanwhile.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple

from tillerman.core.events import FileChange
from tillerman.workspace.files import file_signatures
from tillerman.workspace.files.file_signatures import FolderSnapshot
from tillerman.workspace.git import work_tree_snapshot
from tillerman.workspace.git.git import Deadline, GitFailed
from tillerman.workspace.git.work_tree_snapshot import GitSnapshot

MOST_CHANGES = 1_000
BEFORE = 5.0  # maximum delay of a prompt in seconds
AFTER = 10.0


class UnreadableWorkspace(NamedTuple):
    """A workspace that could not be scanned."""

    why: str

    def close(self) -> None:
        """Does nothing: it holds nothing."""


Snapshot = GitSnapshot | FolderSnapshot | UnreadableWorkspace


class Changes(NamedTuple):
    files: tuple[FileChange, ...] = ()
    left_out: int = 0
    note: str = ""  # what is unknown, and why


async def snapshot(root: Path, *, seconds: float = BEFORE) -> Snapshot:
    """Takes a snapshot. `close()` it when its changes are known."""
    return await asyncio.to_thread(_capture, root, seconds)


async def changed_since(before: Snapshot, *, seconds: float = AFTER) -> Changes:
    """Returns the changes. Can be called again: the snapshot stays the same."""
    return await asyncio.to_thread(_compare, before, seconds)


def _capture(root: Path, seconds: float) -> Snapshot:
    try:
        return work_tree_snapshot.capture(root, Deadline(seconds)) or file_signatures.capture(
            root, seconds
        )
    except (GitFailed, OSError) as error:
        return UnreadableWorkspace(f"cannot determine the changes of this turn: {error}")


def _compare(before: Snapshot, seconds: float) -> Changes:
    note = ""
    try:
        match before:
            case UnreadableWorkspace():
                return Changes(note=before.why)
            case GitSnapshot():
                found, crowded = work_tree_snapshot.compare(before, Deadline(seconds))
                if crowded:
                    note = (
                        f"more than {before.most} files are new or changed against git; "
                        "of the others, only new files are detected"
                    )
            case FolderSnapshot():
                found = list(file_signatures.compare(before, seconds))
                if not before.whole:
                    note = (
                        f"only {len(before.files)} files of this folder were checked; "
                        "of the others, only new files are detected"
                    )
    except (GitFailed, OSError) as error:
        return Changes(note=f"cannot determine the changes of this turn: {error}")
    found.sort(key=lambda change: change.path)
    return Changes(tuple(found[:MOST_CHANGES]), max(0, len(found) - MOST_CHANGES), note)
