"""Wakes when a repository may stand elsewhere: its refs, its index, the files git would look at."""

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

from tillerman.workspace.files import gitignore
from tillerman.workspace.files.gitignore import IgnoreRules
from tillerman.workspace.files.walk import CROWDED, rules_of
from tillerman.workspace.protection import inotify
from tillerman.workspace.protection.inotify import Inotify, InotifyEvent

MOST = 2_000  # watches; the system gives a user some thousands for all programs
QUIET = 0.3  # seconds without news that end a burst
LONGEST = 2.0  # of a burst that does not end
JUDGED = 500  # names that are held against what git ignores; past that a look costs less
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WRITTEN = inotify.NAMES | inotify.ATTRIB | inotify.CLOSE_WRITE
_LEFT = inotify.MOVED_FROM | inotify.DELETE
_CAME = inotify.MOVED_TO | inotify.CREATE
_HERE = inotify.DELETE_SELF | inotify.MOVE_SELF
# git writes these at its own pace, and they change nothing of where the branch stands
_NOISE = frozenset({b"FETCH_HEAD", b"COMMIT_EDITMSG", b"ORIG_HEAD", b"gc.log", b"gc.pid"})
_SHARED = frozenset({b"config", b"packed-refs", b"refs", b"reftable"})  # by all worktrees
_OTHER_REFS = frozenset({"tags", "prefetch", "pull", "notes"})


@dataclass(frozen=True)
class _Place:
    """A watched folder."""

    path: str
    names: tuple[str, ...] = ()  # from the top of the work tree

    def heeds(self, name: bytes, folder: bool) -> bool:
        """Whether it matters what happens to something of that name in it."""
        return not name.endswith(b".lock")

    def inside(self, name: str) -> _Place | None:
        """The folder of that name in it; None: nothing of it matters."""
        return None


class _Refs(_Place):
    def inside(self, name: str) -> _Place | None:
        if self.path.endswith("/refs") and name in _OTHER_REFS:
            return None
        return _Refs(f"{self.path}/{name}")


class _GitFolder(_Place):
    def heeds(self, name: bytes, folder: bool) -> bool:
        return super().heeds(name, folder) and name not in _NOISE

    def inside(self, name: str) -> _Place | None:
        match name:
            case "refs":
                return _Refs(f"{self.path}/{name}")
            case "reftable":
                return _Place(f"{self.path}/{name}")
        return None


class _CommonFolder(_GitFolder):
    """Of a worktree: HEAD and index in it are those of another one."""

    def heeds(self, name: bytes, folder: bool) -> bool:
        return name in _SHARED


class _Outside(_Place):
    """A folder that is in no repository yet."""

    def heeds(self, name: bytes, folder: bool) -> bool:
        return name == b".git"


@dataclass(frozen=True)
class _Tree(_Place):
    rules: tuple[IgnoreRules, ...] = ()

    def heeds(self, name: bytes, folder: bool) -> bool:
        if name == b".git":
            return not self.names
        names = (*self.names, os.fsdecode(name))
        return not gitignore.is_ignored(self.rules, names, folder)

    def inside(self, name: str) -> _Place | None:
        if name == ".git" or not self.heeds(os.fsencode(name), True):
            return None
        return _Tree(f"{self.path}/{name}", (*self.names, name), self.rules)


class FolderWatch:
    """Of the folder that has the `.git`, or of one that is in no repository.

    Raises OSError where the system has nothing to watch with. Folders beyond the bound are not
    watched, nor is what git ignores: of a file there that git tracks nothing is heard.
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
        """Returns when something happened and it is quiet again, or it goes on for long."""
        await self.arm()
        while True:
            await self._armed.inotify.wait()
            if await self._take():
                break
            await asyncio.sleep(QUIET)  # what is ignored may come in floods
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            await asyncio.sleep(QUIET)
            if not await self._take():
                return

    async def arm(self) -> None:
        """Watches from now on, so that nothing between a look and `changed` is missed."""
        if self._stale or not self._armed.places:
            await self._arm()

    def close(self) -> None:
        self._armed.close()

    async def _arm(self) -> None:
        """Anew; the old ones serve on where the system has no more to give."""
        with suppress(OSError):
            armed = _Armed(Inotify(), self._most)
            self._armed.close()
            self._armed, self._stale = armed, False
            await asyncio.to_thread(lambda: armed.add(_places(self._folder)))

    async def _take(self) -> bool:
        """Whether any of it matters; new folders are watched before that is said."""
        mattered, fresh, judged = False, dict[str, _Place](), 0
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
            judged += 1
            if not happening.name or not place.heeds(happening.name, folder):
                mattered |= judged > JUDGED
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
        """The watched folder itself is gone, or is somewhere else."""
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
    """Watches that are set, maybe by a thread, while nobody has closed them."""

    def __init__(self, inotify: Inotify, most: int) -> None:
        self.inotify = inotify
        self.places: dict[int, _Place] = {}
        self._most = most
        self._closed = False
        self._lock = threading.Lock()

    def add(self, places: Iterable[_Place]) -> None:
        """And what is below them; those near the top come first."""
        waiting = list(places)
        while waiting:
            below: list[_Place] = []
            for place in waiting:
                if self._closed or len(self.places) >= self._most:
                    return
                try:
                    below += self._one(place)
                except OSError:
                    continue  # gone, or closed to us; and where watches are used up, 30 s serve
            waiting = below

    def _one(self, place: _Place) -> list[_Place]:
        opened = os.open(place.path, _FOLDER)
        try:
            if isinstance(place, _Tree):
                if place.names and _is_repository(opened):
                    return []  # git does not look into it
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


# -- where git keeps it ----------------------------------------------------------------------------


def _places(folder: Path) -> Iterator[_Place]:
    """What git keeps comes first: it is little, and tells most."""
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
    """A worktree's and a submodule's `.git` is a file that names it."""
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
    """Of a regular file; what else lies there could keep us waiting."""
    with suppress(OSError):
        opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            if stat.S_ISREG(os.fstat(opened).st_mode):
                return os.read(opened, most)
        finally:
            os.close(opened)
    return b""
