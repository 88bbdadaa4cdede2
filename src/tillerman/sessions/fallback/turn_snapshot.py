"""Snapshots the workspace at turn start, and emits `FilesChanged` at turn end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tillerman.core.events import Event, FileChange, FilesChanged, Notice
from tillerman.workspace.git.turn_changes import Snapshot, changed_since, snapshot


class TurnSnapshot:
    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd
        self._before: Snapshot | None = None
        self._looking = asyncio.Lock()

    async def capture(self) -> None:
        """Takes the snapshot, before the agent can change anything."""
        async with self._looking:
            if self._before is None:
                self._before = await snapshot(self._cwd)

    async def changes_so_far(self) -> tuple[FileChange, ...]:
        """The files changed so far, in the middle of a turn."""
        return (await changed_since(self._before)).files if self._before else ()

    async def changes(self) -> list[Event]:
        if self._before is None:
            return []
        found = await changed_since(self._before)
        self._before.close()
        self._before = None
        events: list[Event] = []
        if found.files or found.left_out:
            events.append(FilesChanged(files=found.files, left_out=found.left_out))
        if found.note:
            events.append(Notice(level="warning", kind="files", text=found.note))
        return events
