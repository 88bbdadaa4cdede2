"""What a turn changed on disk, whoever did it: the workspace before against the workspace after.

The session awaits `snapshot` before it sends the prompt: a snapshot still being taken while the
agent writes would count its first edits as having been there. The agent may start meanwhile.
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
BEFORE = 5.0  # seconds that a prompt may be held up
AFTER = 10.0


class UnreadableWorkspace(NamedTuple):
    """A workspace that could not be looked at."""

    why: str

    def close(self) -> None:
        """Holds nothing."""


Snapshot = GitSnapshot | FolderSnapshot | UnreadableWorkspace


class Changes(NamedTuple):
    files: tuple[FileChange, ...] = ()
    left_out: int = 0
    note: str = ""  # what is not known, and why


async def snapshot(root: Path, *, seconds: float = BEFORE) -> Snapshot:
    """The workspace as it is now. `close()` it when its changes are known."""
    return await asyncio.to_thread(_take, root, seconds)


async def changed_since(before: Snapshot, *, seconds: float = AFTER) -> Changes:
    """May be asked again: the snapshot stays as it is."""
    return await asyncio.to_thread(_compare, before, seconds)


def _take(root: Path, seconds: float) -> Snapshot:
    try:
        return work_tree_snapshot.take(root, Deadline(seconds)) or file_signatures.take(
            root, seconds
        )
    except (GitFailed, OSError) as error:
        return UnreadableWorkspace(f"changes of this turn are not known: {error}")


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
                        "of the rest only new ones are seen"
                    )
            case FolderSnapshot():
                found = list(file_signatures.compare(before, seconds))
                if not before.whole:
                    note = (
                        f"only {len(before.files)} files of this folder were looked at; "
                        "of the rest only new ones are seen"
                    )
    except (GitFailed, OSError) as error:
        return Changes(note=f"changes of this turn are not known: {error}")
    found.sort(key=lambda change: change.path)
    return Changes(tuple(found[:MOST_CHANGES]), max(0, len(found) - MOST_CHANGES), note)
