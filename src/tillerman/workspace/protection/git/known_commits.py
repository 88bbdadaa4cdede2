"""Commits that a repository had at session start, and their files at a path.

A checkout may change protected files that git tracks to the content of such a commit. A program can
write objects and refs: only refs from the start count, and every object on the way from one of them
to a file is verified by its hash.
"""

from __future__ import annotations

import os
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from tillerman.workspace.protection.git.folders import git_folders
from tillerman.workspace.protection.git.objects import (
    GitObjects,
    UnreadableObject,
    git_objects,
    object_id,
)

_MOST_REFS = 1_000
_MOST_BYTES = 4 << 20  # of packed refs
_MOST_COMMITS = 20_000
_MOST_RECENT = 500  # commits whose files are compared
_MOST_NEW = 1_000  # commits since the session started
_SECONDS = 2.0

Files = dict[str, tuple[str, bytes | None]]  # path -> git's mode and the content
_Blobs = dict[str, tuple[str, str]]  # path -> git's mode and the id


class KnownCommits:
    """The commits of the work tree at `root`; refs changed after `until` (ns) do not count."""

    def __init__(self, root: Path, until: int | None = None) -> None:
        self._root = root
        self._until = until or time.time_ns()
        self.git, self._common = git_folders(str(root)) or ("", "")
        self._raw = self._read(_first_refs(self.git, self._common)) if self.git else []
        self._complete = not self.git
        self._tips: frozenset[str] | None = None
        self._known: frozenset[str] | None = None
        self._at_tips: dict[str, list[_Blobs]] = {}
        self._recent: dict[str, list[_Blobs]] = {}
        self._led: Files = {}  # files that HEAD has from such a commit
        self._first_index = self.index_mark

    def read_refs(self) -> None:
        """Reads the remaining refs, one file each, so that a start does not wait for hundreds."""
        if not self._complete:
            self._complete, self._tips = True, None
            self._raw += self._read(_loose_refs(self._common))

    def _read(self, paths: list[str]) -> list[bytes]:
        found = []
        for path in paths[:_MOST_REFS]:
            with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123
                status = os.fstat(file.fileno())
                if status.st_ctime_ns <= self._until and status.st_size <= _MOST_BYTES:
                    found.append(file.read(_MOST_BYTES))
        return found

    @property
    def tips(self) -> frozenset[str]:
        self.read_refs()
        if self._tips is None:
            words = (word for text in self._raw for word in text.replace(b"^", b" ").split())
            self._tips = frozenset(word.decode() for word in words if _is_id(word))
        return self._tips

    def has(self, path: str, files: Files) -> bool:
        """Returns whether refs from the start contain each file, or HEAD had it from them."""
        blobs = self._blobs(path)
        return all(
            self._led.get(one) == file or any(_is(found.get(one), file) for found in blobs)
            for one, file in files.items()
        )

    def had(self, path: str, files: Files) -> bool:
        """Like `has` for recent commits; without files: whether one of them had nothing there."""
        if files and self.has(path, files):
            return True
        if path not in self._recent:
            self._recent[path] = self._read_recent(path)
        blobs = [*self._blobs(path), *self._recent[path]]
        if not files:
            return any(not found for found in blobs)
        return all(any(_is(found.get(one), files[one]) for found in blobs) for one in files)

    def tracks(self, path: str) -> bool:
        """Returns whether one of them has any file there."""
        return any(self._blobs(path))

    def _blobs(self, path: str) -> list[_Blobs]:
        if path not in self._at_tips and self.tips:
            found: list[_Blobs] = []
            with suppress(OSError, UnreadableObject), git_objects(self._root) as objects:
                for tip in self.tips:
                    with suppress(UnreadableObject):
                        found.append(_files(objects, objects.commit_of(tip), path))
                self._at_tips[path] = found
        return self._at_tips.get(path, [])

    def _read_recent(self, path: str) -> list[_Blobs]:
        found: list[_Blobs] = []
        with suppress(OSError, UnreadableObject), git_objects(self._root) as objects:
            for commit in _ancestors(objects, self.tips, _MOST_RECENT):
                blobs = _files(objects, commit, path)
                if blobs not in found:
                    found.append(blobs)
        return found

    def leads_to(self, path: str, files: Files) -> bool:
        """Returns whether HEAD has these files at a path, and from a commit of the start."""
        if not self.tips:
            return False
        with suppress(OSError, UnreadableObject), git_objects(self._root) as objects:
            if not _same(_files(objects, objects.head, path), files):
                return False
            if objects.head not in self.tips and self._known is None:
                self._known = _ancestors(objects, self.tips, _MOST_COMMITS)
            known = self._known or self.tips
            if any(
                one == objects.head or _same(_files(objects, one, path), files)
                for one in _nearest(objects, objects.head, known)
            ):
                self._led |= files
                return True
        return False

    def index_holds(self, path: str, files: Files) -> bool:
        """Returns whether the index has exactly these files, so that HEAD may follow soon."""
        from tillerman.workspace.git.git import Deadline, GitFailed, git

        try:
            listed = git(
                self._root,
                "--literal-pathspecs",
                "ls-files",
                "--stage",
                "-z",
                "--",
                path,
                deadline=Deadline(_SECONDS),
            )
        except GitFailed:
            return False
        blobs: _Blobs = {}
        for line in filter(None, os.fsdecode(listed).split("\0")):
            about, _, name = line.partition("\t")
            mode, blob, stage = about.split(" ")
            if stage == "0":
                blobs[name] = (mode, blob)
        return _same(blobs, files)

    @property
    def may_have_moved(self) -> bool:
        """Returns whether git wrote the index since the session started, as a checkout does."""
        return self._is_locked or self.index_mark != self._first_index

    def is_busy(self, max_wait: float) -> bool:
        """Returns whether git is writing the index, or just has: HEAD follows."""
        if self._is_locked:
            return True
        _, changed = self.index_mark
        return abs(time.time_ns() - changed) < max_wait * 1e9

    @property
    def _is_locked(self) -> bool:
        return os.path.lexists(f"{self.git}/index.lock")

    @property
    def index_mark(self) -> tuple[int, int]:
        """Changes with every write of the index."""
        try:
            status = os.stat(f"{self.git}/index")  # noqa: PTH116
        except OSError:
            return 0, 0
        return status.st_ino, status.st_ctime_ns


def git_mode(kind: str, mode: int) -> str:
    if kind == "link":
        return "120000"
    return "100755" if mode & 0o100 else "100644"


def _same(blobs: _Blobs, files: Files) -> bool:
    return blobs.keys() == files.keys() and all(_is(blobs[one], files[one]) for one in files)


def _is(blob: tuple[str, str] | None, file: tuple[str, bytes | None]) -> bool:
    mode, content = file
    if blob is None or content is None or blob[0] != mode:
        return False
    return object_id("blob", content, blob[1]) == blob[1]


def _is_id(word: bytes) -> bool:
    return len(word) in (40, 64) and not word.strip(b"0123456789abcdef")


def _first_refs(git: str, common: str) -> list[str]:
    """Returns the ref files that are read before a program can change them."""
    paths = [f"{git}/HEAD", f"{common}/packed-refs"]
    with suppress(OSError), open(f"{git}/HEAD", "rb", buffering=0) as file:  # noqa: PTH123
        prefix, _, branch = file.read(4096).strip().partition(b" ")
        if prefix == b"ref:" and b".." not in branch and b"\0" not in branch:
            paths.append(f"{common}/{os.fsdecode(branch)}")
    return paths


def _loose_refs(common: str) -> list[str]:
    paths: list[str] = []
    todo = [f"{common}/refs"]
    while todo and len(paths) < _MOST_REFS:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                (todo if entry.is_dir(follow_symlinks=False) else paths).append(entry.path)
    return paths


def _files(objects: GitObjects, commit: str, path: str) -> _Blobs:
    """Returns all files of a commit at a path relative to the workspace."""
    mode, name = "40000", objects.commit(commit)[0]
    for part in f"{objects.prefix}{path}".split("/"):
        if mode != "40000":
            return {}
        entries = [(m, i) for m, called, i in objects.tree(name) if called == part]
        if not entries:
            return {}
        mode, name = entries[0]
    found: _Blobs = {}
    todo = [(path, mode, name)]
    while todo:
        where, mode, name = todo.pop()
        if mode == "40000":
            todo += [(f"{where}/{called}", m, i) for m, called, i in objects.tree(name)]
        elif mode != "160000":
            found[where] = (mode, name)
    return found


def _ancestors(objects: GitObjects, tips: frozenset[str], most: int) -> frozenset[str]:
    """Returns the tips and their nearest ancestors."""
    found: set[str] = set()
    todo: deque[str] = deque()
    for tip in tips:
        with suppress(UnreadableObject):
            todo.append(objects.commit_of(tip))
    while todo and len(found) < most:
        one = todo.popleft()
        if one not in found:
            with suppress(UnreadableObject):
                parents = objects.commit(one)[1]
                found.add(one)
                todo.extend(parents)
    return frozenset(found)


def _nearest(objects: GitObjects, head: str, known: frozenset[str]) -> list[str]:
    """Returns HEAD if it is known, else the known commits that the new ones are based on."""
    found: list[str] = []
    seen: set[str] = set()
    todo = deque([head])
    while todo and len(seen) < _MOST_NEW:
        one = todo.popleft()
        if one in seen:
            continue
        seen.add(one)
        if one in known:
            found.append(one)
        else:
            todo.extend(objects.commit(one)[1])
    return found
