"""Fuzzy search for files of a folder, excluding files ignored by git."""

from __future__ import annotations

import asyncio
import heapq
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MOST = 200_000  # maximum indexed paths
SECONDS = 20.0  # timeout of the walk
FRESH = 10.0  # seconds until the index is refreshed
STEP = 0.3  # seconds between partial results
SHOWN = 50
_STARTS = "/_-. "
# `@` and a path at the cursor, quoted if it contains blanks.
_REFERENCE = re.compile(r'(?:^|(?<=[\s(\[,]))@(?:"([^"]*)|([^\s"@]*))$')


class Reference(NamedTuple):
    """A file reference being typed."""

    start: int  # column of its `@`
    query: str


def reference(before: str) -> Reference | None:
    """The file reference that ends at the cursor, or None."""
    found = _REFERENCE.search(before)
    return found and Reference(found.start(), found[1] if found[1] is not None else found[2])


def written(path: str) -> str:
    return f'@"{path}"' if re.search(r"[\s@,()\[\]]", path) else f"@{path}"


@dataclass(slots=True)
class _Paths:
    """The path index; folders end with a slash. It grows while it is searched."""

    shown: list[str] = field(default_factory=list)
    compared: list[tuple[str, int]] = field(default_factory=list)  # lowercase, start of name

    def add(self, path: str) -> None:
        lower = path.lower()
        self.compared.append((lower, lower.rstrip("/").rfind("/") + 1))
        self.shown.append(path)


class FilePicker:
    """Walks the folder in a thread on first use, and again when the index is outdated."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths = _Paths()
        self._walked = -FRESH
        self._walking: asyncio.Task[None] | None = None
        self._updates = asyncio.Event()
        self._asked = 0
        self._closed = False
        self.cut = False  # the index is incomplete

    @property
    def searching(self) -> bool:
        return self._walking is not None

    async def find(self, query: str) -> Sequence[str] | None:
        """Best matches first; None if another query was started meanwhile."""
        self._asked += 1
        mine = self._asked
        self._look()
        paths = self._paths
        return await asyncio.to_thread(best, paths.shown, paths.compared, query, lambda: (
            self._closed or self._asked != mine
        ))  # fmt: skip

    async def more(self) -> None:
        """Waits until the index has grown or is complete."""
        await self._updates.wait()
        self._updates.clear()

    def close(self) -> None:
        self._closed = True

    def _look(self) -> None:
        if self._walking is None and time.monotonic() - self._walked >= FRESH:
            self._walking = asyncio.create_task(self._walk())

    async def _walk(self) -> None:
        loop = asyncio.get_running_loop()
        first = not self._paths.shown
        paths = self._paths if first else _Paths()

        def updates() -> None:
            if first:
                loop.call_soon_threadsafe(self._updates.set)

        try:
            self.cut = await asyncio.to_thread(self._fill, paths, updates)
            self._paths = paths
        finally:
            self._walked = time.monotonic()
            self._walking = None
            self._updates.set()

    def _fill(self, paths: _Paths, updates: Callable[[], None]) -> bool:
        """True if incomplete. Skips names that cannot be written in a prompt."""
        from tillerman.workspace.files.access.confined_root import ConfinedRoot
        from tillerman.workspace.files.access.walk import DirectoryWalk
        from tillerman.workspace.files.refusal import Refused

        try:
            with ConfinedRoot(self._folder, guarded=False) as root:
                walk = DirectoryWalk(root, ".", seconds=SECONDS)
                reported = time.monotonic()
                for found in walk:
                    if self._closed or len(paths.shown) >= MOST:
                        return True
                    path = found.path
                    if path.isprintable() and '"' not in path:
                        paths.add(f"{path}/" if found.kind == "folder" else path)
                    if time.monotonic() - reported > STEP:
                        reported = time.monotonic()
                        updates()
                return walk.late
        except Refused:
            return False  # the folder was removed


def fits(path: str, query: str) -> bool:
    return bool(best([path], [(path.lower(), 0)], query))


def best(
    shown: Sequence[str],
    compared: Sequence[tuple[str, int]],
    query: str,
    stopped: Callable[[], bool] = lambda: False,
    limit: int = SHOWN,
) -> Sequence[str] | None:
    query = query.lower().removeprefix("./")
    scored: list[tuple[int, int, str]] = []
    for number, path in enumerate(shown):
        if number % 2_048 == 0 and stopped():
            return None
        lower, name = compared[number]
        score = _score(lower, name, query) if query else -lower.count("/", 0, -1)
        if score is not None:
            scored.append((-score, len(path), path))
    return [path for _, _, path in heapq.nsmallest(limit, scored)]


def _score(path: str, name: int, query: str) -> int | None:
    """Scores a substring of the name highest, then of the path, then letters in order."""
    if (at := path.find(query, name)) >= 0:
        begins = at == name or path[at - 1] in _STARTS
        return 1_000 + 300 * (at == name) + 100 * begins + 200 * (len(path) - at == len(query))
    if (at := path.rfind(query)) >= 0:
        return 700 + 100 * (at == 0 or path[at - 1] in _STARTS)
    score, at, later = 0, len(path), -1
    for letter in reversed(query):
        at = path.rfind(letter, 0, at)
        if at < 0:
            return None
        if at == later - 1:
            score += 12
        if at == 0 or path[at - 1] in _STARTS:
            score += 10
        if at >= name:
            score += 4
        later = at
    return score
