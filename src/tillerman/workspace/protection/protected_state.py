"""What was seen at the protected names of a workspace, as values that are compared and saved."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Literal, NamedTuple

DEEPEST = 12  # folders inside each other

Kind = Literal["file", "folder", "link", "other"]


class PathMark(NamedTuple):
    """Nobody changes a file and keeps its mark, but within one tick of the clock."""

    device: int
    inode: int
    size: int
    changed: int  # ns; a program cannot set it
    links: int


class PathNode(NamedTuple):
    kind: Kind
    mode: int
    owner: tuple[int, int]
    modified: int  # ns
    content: bytes | None  # of a file, or where a link leads; None: not kept
    mark: PathMark

    def same(self, other: PathNode) -> bool:
        if self.kind != other.kind or self.mode != other.mode:
            return False
        if self.kind in ("folder", "other"):
            return True
        if self.content is None or other.content is None:
            return self.mark == other.mark
        return self.content == other.content


class ObservedFolder(NamedTuple):
    """A folder in which protected names are looked for."""

    mark: PathMark
    role: str  # work, git, github; empty: of the work tree, counts as new once something is in it
    guarded: tuple[str, ...] = ()
    words: tuple[str, ...] = ()  # files that steer an agent by words
    folders: tuple[tuple[str, str], ...] = ()  # names and roles


class State(NamedTuple):
    at: int
    nodes: Mapping[str, PathNode]
    words: Mapping[str, PathMark]
    folders: Mapping[str, ObservedFolder]
    behind: tuple[str, ...] = ()  # where protected links lead, inside the workspace
    closed: frozenset[str] = frozenset()  # folders too large to look into
    whole: bool = True  # False: there are more folders
    made: frozenset[str] = frozenset()  # by a program of this session: it may delete them again

    @property
    def has_new_folders(self) -> bool:
        """Whether a baseline would look into more of them."""
        return self.whole and any(
            join(path, name) not in self.folders
            for path, seen in self.folders.items()
            if path.count("/") < DEEPEST
            for name, _ in seen.folders
        )


NOTHING = State(0, {}, {}, {})


def mark_of(status: os.stat_result) -> PathMark:
    size, links = (0, 1) if stat.S_ISDIR(status.st_mode) else (status.st_size, status.st_nlink)
    return PathMark(status.st_dev, status.st_ino, size, status.st_ctime_ns, links)


def kind_of(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def parent_of(path: str) -> tuple[str, str]:
    folder, _, name = path.rpartition("/")
    return folder, name


def join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name
