"""Watches a repository for changes of its refs, index and work tree files (inotify)."""

from __future__ import annotations

import asyncio
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from tillerman.workspace.files import gitignore, inotify
from tillerman.workspace.files.access.walk import CROWDED, rules_of
from tillerman.workspace.files.gitignore import IgnoreRules
from tillerman.workspace.files.inotify import Inotify, InotifyEvent

MOST = 2_000  # watches; the system limits a user to some thousands for all programs
QUIET = 0.3  # seconds without events that end a burst
LONGEST = 2.0  # maximum length of a burst
MOST_CHECKED = 500  # names that are checked with .gitignore; beyond that a refresh is cheaper
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITTEN = inotify.NAMES | inotify.ATTRIB | inotify.CLOSE_WRITE
_LEFT = inotify.MOVED_FROM | inotify.DELETE
_CAME = inotify.MOVED_TO | inotify.CREATE
_HERE = inotify.DELETE_SELF | inotify.MOVE_SELF
# git writes these independently of the branch's state
_NOISE = frozenset({b"FETCH_HEAD", b"COMMIT_EDITMSG", b"ORIG_HEAD", b"gc.log", b"gc.pid"})
_SHARED = frozenset({b"config", b"packed-refs", b"refs", b"reftable"})  # by all worktrees
_OTHER_REFS = frozenset({"tags", "prefetch", "pull", "notes"})


@dataclass(frozen=True)
class _Place:
    """A watched folder."""

    path: str
    names: tuple[str, ...] = ()  # from the top of the work tree

    def is_relevant(self, name: bytes, folder: bool) -> bool:
        """Returns whether an event for this name is relevant."""
        return not name.endswith(b".lock")

    def inside(self, name: str) -> _Place | None:
        """Returns the folder of that name in it; None if it is not relevant."""
        return None


class _Refs(_Place):
    def inside(self, name: str) -> _Place | None:
        if self.path.endswith("/refs") and name in _OTHER_REFS:
            return None
        return _Refs(f"{self.path}/{name}")


class _GitFolder(_Place):
    def is_relevant(self, name: bytes, folder: bool) -> bool:
        return super().is_relevant(name, folder) and name not in _NOISE

    def inside(self, name: str) -> _Place | None:
        match name:
            case "refs":
                return _Refs(f"{self.path}/{name}")
            case "reftable":
                return _Place(f"{self.path}/{name}")
        return None


class _CommonFolder(_GitFolder):
    """The common git folder of a worktree: its HEAD and index belong to another worktree."""

    def is_relevant(self, name: bytes, folder: bool) -> bool:
        return name in _SHARED


class _Outside(_Place):
    """A folder that is not in a repository yet."""

    def is_relevant(self, name: bytes, folder: bool) -> bool:
        return name == b".git"


@dataclass(frozen=True)
class _Tree(_Place):
    rules: tuple[IgnoreRules, ...] = ()

    def is_relevant(self, name: bytes, folder: bool) -> bool:
        if name == b".git":
            return not self.names
        names = (*self.names, os.fsdecode(name))
        return not gitignore.is_ignored(self.rules, names, folder)

    def inside(self, name: str) -> _Place | None:
        if name == ".git" or not self.is_relevant(os.fsencode(name), True):
            return None
        return _Tree(f"{self.path}/{name}", (*self.names, name), self.rules)


class FolderWatch:
    """Watches the folder that has the `.git`, or one that is not in a repository.

    Raises OSError if the system cannot watch. Folders beyond the limit and ignored files are not
    watched, so changes of a tracked file in an ignored folder are not reported.
    """

    def __init__(self, folder: Path, *, most: int = MOST) -> None:
        self._folder = folder
        self._most = most
        self._armed = _Armed(Inotify(), most)
        self._stale = True

    @property
    def watches(self) -> int:
        return len(self._armed.places)

    async def changed(self) -> None:
        """Returns after a change, once there are no more events or the burst is too long."""
        await self.arm()
        while True:
            await self._armed.inotify.wait()
            if await self._read_events():
                break
            await asyncio.sleep(QUIET)  # ignored files may change in large numbers
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            await asyncio.sleep(QUIET)
            if not await self._read_events():
                return

    async def arm(self) -> None:
        """Starts watching, so that no change between a read and `changed` is missed."""
        if self._stale or not self._armed.places:
            await self._arm()

    def close(self) -> None:
        self._armed.close()

    async def _arm(self) -> None:
        """Sets all watches anew; the old ones stay if the system has no more."""
        with suppress(OSError):
            armed = _Armed(Inotify(), self._most)
            self._armed.close()
            self._armed, self._stale = armed, False
            await asyncio.to_thread(lambda: armed.add(_places(self._folder)))

    async def _read_events(self) -> bool:
        """Returns whether an event is relevant; new folders are watched before it returns."""
        mattered, fresh, checked = False, dict[str, _Place](), 0
        for happening in dict.fromkeys(self._armed.inotify.read()):
            if happening.mask & inotify.OVERFLOW:
                self._stale = mattered = True
                continue
            place = self._armed.places.get(happening.watch)
            if place is None:
                continue
            if happening.mask & (inotify.IGNORED | _HERE):
                mattered |= self._lost(happening, place)
                continue
            folder = bool(happening.mask & inotify.IS_FOLDER)
            decides = happening.name in (b".gitignore", b".git")
            if mattered and not folder and not decides:
                continue
            checked += 1
            if not happening.name or not place.is_relevant(happening.name, folder):
                mattered |= checked > MOST_CHECKED
                continue
            mattered = True
            if decides and isinstance(place, _Tree | _Outside):
                self._stale = True
            if folder:
                self._moved(happening, place, fresh)
        if self._stale:
            await self._arm()
        elif fresh:
            armed = self._armed
            await asyncio.to_thread(lambda: armed.add(fresh.values()))
        return mattered

    def _lost(self, happening: InotifyEvent, place: _Place) -> bool:
        """Handles a watched folder that was removed or moved."""
        if happening.mask & inotify.IGNORED:
            self._armed.places.pop(happening.watch, None)
        if not place.names and not isinstance(place, _Refs):
            self._stale = True
        return True

    def _moved(self, happening: InotifyEvent, place: _Place, fresh: dict[str, _Place]) -> None:
        name = os.fsdecode(happening.name)
        if happening.mask & _LEFT:
            self._armed.forget(f"{place.path}/{name}")
        elif happening.mask & _CAME and (inner := place.inside(name)):
            fresh[inner.path] = inner


class _Armed:
    """The set of active watches; a thread may add to it until it is closed."""

    def __init__(self, inotify: Inotify, most: int) -> None:
        self.inotify = inotify
        self.places: dict[int, _Place] = {}
        self._most = most
        self._closed = False
        self._lock = threading.Lock()

    def add(self, places: Iterable[_Place]) -> None:
        """Adds watches for the folders and their subfolders, topmost first."""
        waiting = list(places)
        while waiting:
            below: list[_Place] = []
            for place in waiting:
                if self._closed or len(self.places) >= self._most:
                    return
                try:
                    below += self._one(place)
                except OSError:
                    continue  # removed or not readable; without watches, polling every 30 s remains
            waiting = below

    def _one(self, place: _Place) -> list[_Place]:
        opened = os.open(place.path, _FOLDER)
        try:
            if isinstance(place, _Tree):
                if place.names and _is_repository(opened):
                    return []  # git does not enter it
                place = _with_rules(place, opened)
            with self._lock:
                if self._closed:
                    return []
                self.places[self.inotify.add_open(opened, _WRITTEN)] = place
            with os.scandir(opened) as entries:
                names = [
                    e.name for e in islice(entries, CROWDED) if e.is_dir(follow_symlinks=False)
                ]
        finally:
            os.close(opened)
        return [inner for name in names if (inner := place.inside(name))]

    def forget(self, path: str) -> None:
        for watch, place in list(self.places.items()):
            if place.path == path or place.path.startswith(f"{path}/"):
                self.inotify.remove(watch)
                self.places.pop(watch, None)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self.inotify.close()


def _with_rules(place: _Tree, opened: int) -> _Tree:
    rules = (*place.rules, *rules_of(opened, len(place.names)))
    return _Tree(place.path, place.names, rules)


def _is_repository(opened: int) -> bool:
    try:
        os.stat(".git", dir_fd=opened, follow_symlinks=False)
    except OSError:
        return False
    return True


# -- git folders -----------------------------------------------------------------------------------


def _places(folder: Path) -> Iterator[_Place]:
    """Yields the folders to watch; git's own first: they are few and the most relevant."""
    own = git_folder(folder)
    if own is None:
        yield _Outside(str(folder))
        return
    common = _named_in(own / "commondir", own) or own
    yield _GitFolder(str(own))
    if common != own:
        yield _CommonFolder(str(common))
    yield _Tree(str(folder), rules=tuple(_excluded(common)))


def git_folder(folder: Path) -> Path | None:
    """Returns the git folder; of a worktree or submodule, `.git` is a file that names it."""
    git = folder / ".git"
    if git.is_dir():
        return git
    return _named_in(git, folder, "gitdir:")


def _named_in(file: Path, beside: Path, before: str = "") -> Path | None:
    data = _read(file, 4096)
    text = os.fsdecode(data).rstrip("\n")
    if not text.startswith(before) or not (name := text.removeprefix(before).strip()):
        return None
    found = Path(os.path.normpath(beside / name))
    return found if found.is_dir() else None


def _excluded(common: Path) -> Sequence[IgnoreRules]:
    data = _read(common / "info" / "exclude", gitignore.MOST_BYTES)
    return [gitignore.parse(data, 0)] if data else []


def _read(file: Path, most: int) -> bytes:
    """Reads a regular file only; other types could block."""
    with suppress(OSError):
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            if stat.S_ISREG(os.fstat(opened).st_mode):
                return os.read(opened, most)
        finally:
            os.close(opened)
    return b""
