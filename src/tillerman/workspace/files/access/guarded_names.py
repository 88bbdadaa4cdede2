"""Refuses writes to protected names, by spelling and by file identity.

A protected file that was seen once is held open, so that it is recognized under any other name and
its inode is not reused.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Literal

from tillerman.core.permission import guarded_names
from tillerman.workspace.files.refusal import Refused

_MOST_HELD = 256
_MOST_SEEN = 10_000
_FRESH = 0.5  # seconds

Standing = Literal["free", "instructions", "protected"]


def standing(parts: Sequence[str]) -> Standing:
    """Classifies a path relative to the workspace: `instructions` may be written after approval."""
    spelled = [guarded_names.plain(part) for part in parts]
    if guarded_names.is_protected(spelled):
        return "protected"
    return "instructions" if spelled and spelled[-1] in guarded_names.INSTRUCTIONS else "free"


class GuardedNames:
    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[int, str]] = {}
        self._seen: dict[tuple[int, int], tuple[int, float]] = {}  # when a folder was scanned
        self._lock = threading.Lock()

    def check(self, parts: Sequence[str]) -> None:
        """Checks the spelling, whether the file exists or not."""
        if standing(parts) == "protected":
            raise _refusal("/".join(parts), "/".join(parts))

    def check_file(self, status: os.stat_result, path: str) -> None:
        """Checks the file identity, whatever its name is."""
        if held := self._held.get((status.st_dev, status.st_ino)):
            raise _refusal(path, held[1])

    def scan(self, folder: int, parts: Sequence[str]) -> None:
        """Holds the protected files of an open folder, whose path is `parts`."""
        if self._just_seen(os.fstat(folder)):
            return
        spelled = [guarded_names.plain(part) for part in parts]
        with os.scandir(folder) as entries:
            for entry in entries:
                if guarded_names.is_protected([*spelled[-1:], guarded_names.plain(entry.name)]):
                    self._hold(folder, entry.name, "/".join((*parts, entry.name)))

    def _just_seen(self, status: os.stat_result) -> bool:
        """Limits scans: otherwise a folder is scanned once for each of thousands of new files."""
        key, now = (status.st_dev, status.st_ino), time.monotonic()
        changed, at = self._seen.get(key, (-1, -_FRESH))
        if changed == status.st_mtime_ns or now - at < _FRESH:
            return True
        if len(self._seen) > _MOST_SEEN:
            self._seen.clear()
        self._seen[key] = (status.st_mtime_ns, now)
        return False

    def _hold(self, folder: int, name: str, path: str) -> None:
        try:
            held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return  # already removed
        status = os.fstat(held)
        with self._lock:
            if len(self._held) < _MOST_HELD:
                kept = self._held.setdefault((status.st_dev, status.st_ino), (held, path))
                if kept[0] == held:
                    return
        os.close(held)

    def close(self) -> None:
        with self._lock:
            for held, _ in self._held.values():
                os.close(held)
            self._held.clear()


def _refusal(path: str, name: str) -> Refused:
    also = "" if path == name else f" is {name}, which"
    return Refused(
        f"{path}{also} starts programs or configures agents: tools may not write it",
        hint="tell the user what should be in it, so that they can write it",
    )
