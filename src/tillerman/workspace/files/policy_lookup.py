"""File lookups of the policy on disk: globs, folder listings and git tracking, bounded.

Links are never followed out.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from tillerman.core.permission.folder_contents import FolderListing
from tillerman.workspace.files import gitignore

MOST = 200_000  # entries read for one folder
SECONDS = 1.0  # time limit: a caller waits for the decision
_KEPT = 8  # listings of folders
_INDEX = b"DIRC"
# Two changes of a folder within one tick of its file system's clock look like one.
_TICK, _COARSE_TICK = 50_000_000, 2_100_000_000

_Stamp = tuple[int, int, int, int]


class _Folder(NamedTuple):
    """The names in one folder. `stamp` changes with them; None: read it again."""

    stamp: _Stamp | None
    names: tuple[str, ...]
    folders: tuple[str, ...]
    links: tuple[str, ...] = ()


class _Walk(NamedTuple):
    folders: list[tuple[str, _Stamp | None]]
    listing: FolderListing


class DiskFiles:
    """Cached lookups that are always current.

    A folder is read again once its change time, which no program can set, differs.
    """

    def __init__(self) -> None:
        self._folders: dict[str, _Folder] = {}
        self._walks: dict[tuple[str, frozenset[str]], _Walk] = {}
        self._indexes: dict[str, tuple[_Stamp, bytes]] = {}

    def glob(self, pattern: str) -> Sequence[str] | None:
        """Returns the paths that a shell would expand the pattern to; links are not followed."""
        first, *parts = pattern.split("/")
        found = [first or "/"]
        for part in filter(None, parts):
            found = [path for folder in found for path in _matching(folder, part)]
            if len(found) > MOST:
                return None
        return found

    def below(self, folder: str, skipped: frozenset[str]) -> FolderListing:
        """Lists breadth-first, so that near files are found even in a large folder."""
        key = (folder, skipped)
        known = self._walks.pop(key, None)
        if known is None or not _are_as_read(known.folders):
            found = self._walk(folder, skipped)
            if known and _are_alike(known.listing, found.listing):
                found = found._replace(listing=known.listing)
            known = found
        self._walks[key] = known
        if len(self._walks) > _KEPT:
            del self._walks[next(iter(self._walks))]
        return known.listing

    def _walk(self, top: str, skipped: frozenset[str]) -> _Walk:
        found: list[str] = []
        links: list[str] = []
        folders: list[tuple[str, _Stamp | None]] = []
        waiting = deque([("", top)])
        deadline = time.monotonic() + SECONDS
        while waiting:
            prefix, path = waiting.popleft()
            read = self._read(path)
            folders.append((path, read.stamp))
            found += [prefix + name for name in read.names] if prefix else read.names
            links += (prefix + name for name in read.links)
            if len(found) > MOST or time.monotonic() > deadline:
                return _Walk(
                    folders,
                    FolderListing(tuple(found[: MOST + 1]), links=tuple(links), complete=False),
                )
            for name in read.folders:
                if name not in skipped:
                    waiting.append((f"{prefix}{name}/", f"{path}/{name}"))
        return _Walk(folders, FolderListing(tuple(found), links=tuple(links)))

    def _read(self, path: str) -> _Folder:
        known = self._folders.get(path)
        if known and _is_as_read(path, known.stamp):
            return known
        read = _read_folder(path)
        if len(self._folders) > MOST:
            self._folders.clear()
        self._folders[path] = read
        return read

    def is_folder(self, path: str) -> bool:
        return os.path.isdir(path)  # noqa: PTH112

    def tracked(self, path: str) -> bool:
        """Returns whether git tracks the path, by its index; True if that cannot be read."""
        for folder in _parents(path):
            index = self._index_of(folder)
            if index is not None:
                name = os.fsencode(os.path.relpath(path, folder))
                return _lists(index, name)
        return False

    def ignored(self, path: str) -> bool:
        """Returns whether the ignore files of the path's repository match it."""
        root = next((one for one in _parents(path) if self._index_of(one) is not None), None)
        if root is None:
            return False
        names = os.path.relpath(path, root).split("/")
        chain = [gitignore.parse(_content(os.path.join(root, ".git/info/exclude")), 0)]  # noqa: PTH118
        for depth in range(len(names)):
            folder = os.path.join(root, *names[:depth])  # noqa: PTH118
            chain.append(gitignore.parse(_content(os.path.join(folder, ".gitignore")), depth))  # noqa: PTH118
            inner = depth + 1 < len(names)
            if gitignore.is_ignored(chain, names[: depth + 1], inner or os.path.isdir(path)):  # noqa: PTH112
                return True
        return False

    def _index_of(self, folder: str) -> bytes | None:
        """Returns the index; None if no repository starts at this folder."""
        git = os.path.join(folder, ".git")  # noqa: PTH118
        try:
            if os.path.isfile(git):  # noqa: PTH113
                with open(git, "rb") as file:  # noqa: PTH123
                    pointer = file.read(4096)
                git = os.path.join(folder, os.fsdecode(pointer.removeprefix(b"gitdir: ").strip()))  # noqa: PTH118
            return self._index(os.path.join(git, "index"))  # noqa: PTH118
        except FileNotFoundError:
            return b"" if os.path.isdir(git) else None  # noqa: PTH112
        except OSError:
            return _INDEX + b"\0\0\0\4"  # handled like an unsupported index version

    def _index(self, path: str) -> bytes:
        known = self._indexes.get(path)
        if known and _is_as_read(path, known[0]):
            return known[1]
        now = time.time_ns()
        stamp = _stamp(path)
        with open(path, "rb") as file:  # noqa: PTH123
            content = file.read()
        if not _may_change_unseen(stamp, now):
            self._indexes.clear()
            self._indexes[path] = (stamp, content)
        return content


def resolved(path: str) -> str:
    """The path without links; where a link cannot be read, the path as it is written."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return os.path.normpath(path)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read(gitignore.MOST_BYTES)
    except OSError:
        return b""


def _are_alike(one: FolderListing, other: FolderListing) -> bool:
    return one.paths == other.paths and one.links == other.links


def _stamp(path: str) -> _Stamp:
    status = os.stat(path)  # noqa: PTH116
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mtime_ns


def _is_as_read(path: str, stamp: _Stamp | None) -> bool:
    if stamp is None:
        return False
    try:
        return _stamp(path) == stamp
    except OSError:
        return False


def _are_as_read(folders: Sequence[tuple[str, _Stamp | None]]) -> bool:
    """Returns False also if the check takes too long."""
    deadline = time.monotonic() + SECONDS
    return all(_is_as_read(*one) and time.monotonic() < deadline for one in folders)


def _may_change_unseen(stamp: _Stamp, now: int) -> bool:
    changed = stamp[2]
    return changed > now - (_TICK if changed % 1_000_000 else _COARSE_TICK)


def _read_folder(path: str) -> _Folder:
    now = time.time_ns()
    try:
        stamp = _stamp(path)
        with os.scandir(path) as entries:
            found = sorted(
                (one.name, one.is_dir(follow_symlinks=False), one.is_symlink()) for one in entries
            )
    except OSError:
        return _Folder(None, (), ())  # a file, or a folder that the agent cannot read either
    names = tuple(name for name, _, _ in found)
    folders = tuple(name for name, is_folder, _ in found if is_folder)
    links = tuple(name for name, _, is_link in found if is_link)
    return _Folder(None if _may_change_unseen(stamp, now) else stamp, names, folders, links)


def _matching(folder: str, part: str) -> Iterator[str]:
    plain = part.replace("[*]", "*").replace("[?]", "?").replace("[[]", "[")
    if not set("*?") & set(part.replace("[*]", "").replace("[?]", "")):
        path = os.path.join(folder, plain)  # noqa: PTH118
        if part in (".", "..") or os.path.lexists(path):
            yield path
        return
    try:
        names = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return
    for name in names:
        if (part.startswith(".") or not name.startswith(".")) and fnmatchcase(name, part):
            yield os.path.join(folder, name)  # noqa: PTH118


def _parents(path: str) -> Iterator[str]:
    folder = os.path.dirname(path)  # noqa: PTH120
    while True:
        yield folder
        if (above := os.path.dirname(folder)) == folder:  # noqa: PTH120
            return
        folder = above


def _lists(index: bytes, name: bytes) -> bool:
    """Searches an index: each entry has the name's length in two bytes, the name, and NUL."""
    if not index.startswith(_INDEX) or index[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        return bool(index)  # version 4 compresses names
    at = index.find(name + b"\0")
    while at >= 0:
        length = int.from_bytes(index[at - 2 : at], "big") & 0xFFF
        extended = int.from_bytes(index[at - 4 : at - 2], "big") & 0xFFF
        if min(len(name), 0xFFF) in (length, extended):
            return True
        at = index.find(name + b"\0", at + 1)
    return False
