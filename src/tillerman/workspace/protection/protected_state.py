"""Recorded state of the protected files of a workspace, to be compared and saved."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from typing import Literal, NamedTuple

DEEPEST = 12  # levels of nested folders

Kind = Literal["file", "folder", "link", "other"]


class PathMark(NamedTuple):
    """Identifies a version of a file: any change alters it, except within one clock tick."""

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
    content: bytes | None  # of a file, or the target of a link; None: not stored
    mark: PathMark

    def same(self, other: PathNode) -> bool:
        """Returns whether both are equal.

        Content that is known on one side only is a difference: the file was removed between being
        found and being read, and its copy must not be replaced by none.
        """
        if self.kind != other.kind or self.mode != other.mode:
            return False
        if self.kind in ("folder", "other"):
            return True
        if self.content is None and other.content is None:
            return self.mark == other.mark
        return self.content == other.content


class ObservedFolder(NamedTuple):
    """A folder that is scanned for protected names."""

    mark: PathMark
    role: str  # work, git, github; empty: a work folder, new once it has content
    guarded: tuple[str, ...] = ()
    instructions: tuple[str, ...] = ()  # instruction files of agents
    folders: tuple[tuple[str, str], ...] = ()  # names and roles


class State(NamedTuple):
    at: int
    nodes: Mapping[str, PathNode]
    instructions: Mapping[str, PathMark]
    folders: Mapping[str, ObservedFolder]
    behind: tuple[str, ...] = ()  # targets of protected links inside the workspace
    closed: frozenset[str] = frozenset()  # folders too large to scan
    whole: bool = True  # False: there are more folders
    made: frozenset[str] = frozenset()  # by a program of this session, which may delete them again

    @property
    def has_new_folders(self) -> bool:
        """Returns whether a baseline would scan more folders."""
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
