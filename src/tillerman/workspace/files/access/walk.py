"""Walks a folder tree by descriptor: links are listed, but never followed."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from typing import Literal, NamedTuple

from msgspec import Struct

from tillerman.workspace.files import gitignore
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.own_files import is_own_store
from tillerman.workspace.files.access.path_locks import TEMPORARY
from tillerman.workspace.files.gitignore import IgnoreRules
from tillerman.workspace.files.refusal import Refused

DEEPEST = 60  # each level holds a descriptor
CROWDED = 20_000  # names of one folder
_LOOKS_AT_CLOCK = 64  # entries between two checks of the clock
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

Kind = Literal["file", "folder", "link", "other"]


class OpenFile(NamedTuple):
    number: int
    status: os.stat_result


class WalkEntry(Struct, frozen=True, gc=False):
    """An entry. `kind` is from the directory entry; `status` and `open` access the file."""

    above: tuple[str, ...]  # names from the root to its folder
    name: str
    kind: Kind
    folder: int  # its folder, open until the next entry is requested
    path: str  # relative to the root

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.above, self.name)

    def status(self) -> os.stat_result | None:
        """Returns its status; None if it was removed."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except OSError:
            return None

    def open(self) -> OpenFile | None:
        """Opens a regular file for reading; None if it is no longer one, or the store in use."""
        if is_own_store(self.name, self.folder):
            return None
        try:
            opened = os.open(self.name, _FILE, dir_fd=self.folder)
        except OSError:
            return None
        status = os.fstat(opened)
        if stat.S_ISREG(status.st_mode):
            return OpenFile(opened, status)
        os.close(opened)
        return None

    def target(self) -> str:
        return _target(self.name, self.folder)


class FlatFolder(NamedTuple):
    """The entries of one folder, in order of names."""

    prefix: str  # of their paths
    entries: Sequence[tuple[str, Kind]]
    targets: dict[str, str]  # of links


class DirectoryWalk:
    """Walks in order of names, a folder before its content. `left_out` counts skipped entries."""

    def __init__(
        self, root: ConfinedRoot, path: str, *, depth: int = DEEPEST, ignored: bool = False,
        seconds: float = 20.0, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._root, self._start = root, path
        self._depth, self._ignored = min(depth, DEEPEST), ignored
        self._clock, self._until = clock, clock() + seconds
        self.left_out: Counter[str] = Counter()
        self.late = False

    def __iter__(self) -> Iterator[WalkEntry]:
        parts = self._root.parts(self._start)
        try:
            top = self._root.open_folder(self._start)
        except Refused as refusal:
            yield from self._only(parts, refusal)
            return
        try:
            chain = [] if self._ignored else self._chain(parts)
            yield from self._below(top, parts, chain, 1)
        finally:
            os.close(top)

    def flat(self, most: int) -> FlatFolder | None:
        """Returns the folder's own entries at once, which is much faster than iterating.

        At most `most`. None if the path is not a folder that can be opened.
        """
        parts = self._root.parts(self._start)
        try:
            top = self._root.open_folder(self._start)
        except Refused:
            return None
        try:
            entries = self._entries(top)
            if not self._ignored:
                chain = [*self._chain(parts), *rules_of(top, len(parts))]
                entries = self._visible(entries, parts, chain, most)
            del entries[most:]
            targets = {name: _target(name, top) for name, kind in entries if kind == "link"}
            return FlatFolder("".join(f"{name}/" for name in parts), entries, targets)
        finally:
            os.close(top)

    def _visible(
        self,
        entries: list[tuple[str, Kind]],
        names: tuple[str, ...],
        chain: Sequence[IgnoreRules],
        most: int,
    ) -> list[tuple[str, Kind]]:
        """Returns the first `most` entries that are not ignored."""
        if not chain:
            at = bisect_left(entries, ".git", key=itemgetter(0))
            if entries[at : at + 1] and entries[at][0] == ".git":
                self.left_out["ignored"] += 1
                del entries[at]
            return entries
        visible: list[tuple[str, Kind]] = []
        for number, one in enumerate(entries):
            if len(visible) == most or self._is_late(number):
                break
            if self._is_hidden(one, names, chain):
                self.left_out["ignored"] += 1
            else:
                visible.append(one)
        return visible

    def _only(self, parts: tuple[str, ...], refusal: Refused) -> Iterator[WalkEntry]:
        """Yields a single file that was given instead of a folder."""
        if not parts:
            raise refusal
        above = self._root.open_folder("/".join(parts[:-1]) or ".")
        try:
            status = os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                raise refusal
            yield WalkEntry(parts[:-1], parts[-1], "file", above, "/".join(parts))
        except OSError:
            raise refusal from None
        finally:
            os.close(above)

    def _below(
        self, folder: int, names: tuple[str, ...], chain: Sequence[IgnoreRules], level: int
    ) -> Iterator[WalkEntry]:
        if not self._ignored:
            chain = [*chain, *rules_of(folder, len(names))]
        prefix = "".join(f"{name}/" for name in names)
        hides = not self._ignored
        for number, entry in enumerate(self._entries(folder)):
            if self._is_late(number):
                return
            if hides and self._is_hidden(entry, names, chain):
                self.left_out["ignored"] += 1
                continue
            name, kind = entry
            yield WalkEntry(names, name, kind, folder, prefix + name)
            if kind != "folder":
                continue
            if level < self._depth:
                try:
                    inner = os.open(name, _FOLDER, dir_fd=folder)
                except OSError:
                    self.left_out["unreadable"] += 1
                    continue
                try:
                    yield from self._below(inner, (*names, name), chain, level + 1)
                finally:
                    os.close(inner)
            elif level == DEEPEST:
                self.left_out["too deep"] += 1

    def _is_late(self, number: int) -> bool:
        """Returns whether the time is over; looks at the clock once for several entries."""
        if not number % _LOOKS_AT_CLOCK and self._clock() > self._until:
            self.late = True
        return self.late

    @staticmethod
    def _is_hidden(
        entry: tuple[str, Kind], names: tuple[str, ...], chain: Sequence[IgnoreRules]
    ) -> bool:
        name, kind = entry
        if name == ".git":
            return True
        return bool(chain) and gitignore.is_ignored(chain, (*names, name), kind == "folder")

    def _entries(self, folder: int) -> list[tuple[str, Kind]]:
        """Returns the entries, sorted by name. Their kind is known without a stat."""
        found: list[tuple[str, Kind]]
        try:
            with os.scandir(folder) as entries:
                found = [
                    (one.name, "file" if one.is_file(follow_symlinks=False) else _other_kind(one))
                    for one in islice(entries, CROWDED)
                ]
                self.left_out["in a folder with too many entries"] += sum(1 for _ in entries)
        except OSError:
            self.left_out["unreadable"] += 1
            return []
        found.sort(key=itemgetter(0))
        first = after = bisect_left(found, TEMPORARY, key=itemgetter(0))
        while after < len(found) and found[after][0].startswith(TEMPORARY):
            after += 1
        del found[first:after]
        return found

    def _chain(self, parts: tuple[str, ...]) -> list[IgnoreRules]:
        """Returns the rules of the parent folders, and those of `.git/info/exclude`."""
        chain: list[IgnoreRules] = []
        with contextlib.suppress(Refused):
            opened = self._root.open_file(".git/info/exclude")
            chain += _with_patterns(gitignore.parse(_read_all(opened), 0))
        for depth in range(len(parts)):
            above = self._root.open_folder("/".join(parts[:depth]) or ".")
            try:
                chain += rules_of(above, depth)
            finally:
                os.close(above)
        return chain


def rules_of(folder: int, depth: int) -> list[IgnoreRules]:
    """Returns the rules of a folder's own .gitignore."""
    try:
        opened = os.open(".gitignore", _FILE, dir_fd=folder)
    except OSError:
        return []
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        return []
    return _with_patterns(gitignore.parse(_read_all(opened), depth))


def _with_patterns(rules: IgnoreRules) -> list[IgnoreRules]:
    return [rules] if rules.patterns else []


def _read_all(opened: int) -> bytes:
    try:
        return os.pread(opened, gitignore.MOST_BYTES, 0)
    except OSError:
        return b""
    finally:
        os.close(opened)


def _target(name: str, folder: int) -> str:
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError:
        return ""


def _other_kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "link" if entry.is_symlink() else "other"


def kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"
