"""Commits that a repository had when a session began, and what they hold at a path.

A checkout may change protected files that git tracks, to what such a commit holds. A program can
write objects and refs of its own: only refs of the start count, and every object that leads from
one of them to a file is hashed here.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from bridle.workspace.protection.mount_plan import git_folders

_MOST_REFS = 1_000
_MOST_BYTES = 4 << 20  # of packed refs
_MOST_COMMITS = 20_000
_MOST_NEW = 1_000  # commits since the session began
_SECONDS = 2.0
_OBJECT = 64 << 20

Files = dict[str, tuple[str, bytes | None]]  # git's mode and the content, by path
_Blobs = dict[str, tuple[str, str]]  # git's mode and the id, by path


class Unreadable(Exception):
    """An object is missing, or is not what its name says."""


class KnownCommits:
    """Of the work tree at `root`; refs that changed after `until` (ns) do not count."""

    def __init__(self, root: Path, until: int | None = None) -> None:
        self._root = root
        self.git, common = git_folders(str(root)) or ("", "")
        self._raw = _refs(self.git, common, until or time.time_ns()) if self.git else []
        self._tips: frozenset[str] | None = None
        self._known: frozenset[str] | None = None
        self._at_tips: dict[str, list[_Blobs]] = {}
        self._led: Files = {}  # what HEAD was found to have from such a commit
        self._first_index = self.index_mark

    @property
    def tips(self) -> frozenset[str]:
        if self._tips is None:
            words = (word for text in self._raw for word in text.replace(b"^", b" ").split())
            self._tips = frozenset(word.decode() for word in words if _is_id(word))
        return self._tips

    def has(self, path: str, files: Files) -> bool:
        """Whether refs of the start hold each of these files, or HEAD held it and so did they."""
        blobs = self._blobs(path)
        return all(
            self._led.get(one) == file or any(_is(found.get(one), file) for found in blobs)
            for one, file in files.items()
        )

    def tracks(self, path: str) -> bool:
        """Whether one of them holds anything there."""
        return any(self._blobs(path))

    def _blobs(self, path: str) -> list[_Blobs]:
        if path not in self._at_tips and self.tips:
            found: list[_Blobs] = []
            with suppress(OSError, Unreadable), _objects(self._root) as objects:
                for tip in self.tips:
                    with suppress(Unreadable):
                        found.append(_files(objects, objects.commit_of(tip), path))
                self._at_tips[path] = found
        return self._at_tips.get(path, [])

    def leads_to(self, path: str, files: Files) -> bool:
        """Whether HEAD holds this at a path, and had it from a commit of the start."""
        if not self.tips:
            return False
        with suppress(OSError, Unreadable), _objects(self._root) as objects:
            if not _same(_files(objects, objects.head, path), files):
                return False
            if self._known is None:
                self._known = _ancestors(objects, self.tips)
            if any(
                one == objects.head or _same(_files(objects, one, path), files)
                for one in _nearest(objects, objects.head, self._known)
            ):
                self._led |= files
                return True
        return False

    @property
    def may_have_moved(self) -> bool:
        """Git wrote the index since the session began: a checkout does."""
        return self._is_locked or self.index_mark != self._first_index

    def is_busy(self, patience: float) -> bool:
        """Git works on the index, or has just done so: HEAD follows."""
        if self._is_locked:
            return True
        _, changed = self.index_mark
        return abs(time.time_ns() - changed) < patience * 1e9

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
    return _hash("blob", content, blob[1]) == blob[1]


def _hash(kind: str, content: bytes, like: str) -> str:
    import hashlib

    made = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return made(f"{kind} {len(content)}\0".encode() + content, usedforsecurity=False).hexdigest()


def _is_id(word: bytes) -> bool:
    return len(word) in (40, 64) and not word.strip(b"0123456789abcdef")


def _refs(git: str, common: str, until: int) -> list[bytes]:
    """As they lie there; most sessions never need to know more."""
    found: list[bytes] = []
    paths = [f"{git}/HEAD", f"{common}/packed-refs"]
    todo = [f"{common}/refs"]
    while todo and len(paths) < _MOST_REFS:
        with suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                (todo if entry.is_dir(follow_symlinks=False) else paths).append(entry.path)
    for path in paths[:_MOST_REFS]:
        with suppress(OSError), open(path, "rb", buffering=0) as file:  # noqa: PTH123
            status = os.fstat(file.fileno())
            if status.st_ctime_ns <= until and status.st_size <= _MOST_BYTES:
                found.append(file.read(_MOST_BYTES))
    return found


class _Objects:
    """Read from git, and checked."""

    def __init__(self, git: subprocess.Popen[bytes], head: str, prefix: str) -> None:
        self._git = git
        self.head, self.prefix = head, prefix
        self._until = time.monotonic() + _SECONDS
        self._trees: dict[str, list[tuple[str, str, str]]] = {}

    def read(self, name: str) -> tuple[str, bytes]:
        assert self._git.stdin and self._git.stdout
        if time.monotonic() > self._until:
            raise Unreadable("it takes too long")
        self._git.stdin.write(f"{name}\n".encode())
        self._git.stdin.flush()
        words = self._git.stdout.readline().split()
        if len(words) != 3 or int(words[2]) > _OBJECT:
            raise Unreadable(name)
        content = self._git.stdout.read(int(words[2]))
        self._git.stdout.read(1)
        kind = words[1].decode()
        if _hash(kind, content, name) != name:
            raise Unreadable(name)
        return kind, content

    def commit_of(self, name: str) -> str:
        """What a tag names, at last."""
        for _ in range(5):
            kind, content = self.read(name)
            if kind == "commit":
                return name
            if kind != "tag":
                break
            name = content.split(b"\n", 1)[0].removeprefix(b"object ").decode()
        raise Unreadable(name)

    def commit(self, name: str) -> tuple[str, list[str]]:
        """Its tree and its parents."""
        kind, content = self.read(name)
        if kind != "commit":
            raise Unreadable(name)
        lines = content.split(b"\n\n", 1)[0].split(b"\n")
        words = [line.split(b" ", 1) for line in lines]
        parents = [rest[0].decode() for word, *rest in words if word == b"parent"]
        return words[0][1].decode(), parents

    def tree(self, name: str) -> list[tuple[str, str, str]]:
        """Modes, names and ids."""
        if name in self._trees:
            return self._trees[name]
        kind, content = self.read(name)
        if kind != "tree":
            raise Unreadable(name)
        found, at, size = [], 0, len(name) // 2
        while at < len(content):
            end = content.index(b"\0", at)
            mode, _, called = content[at:end].partition(b" ")
            found.append(
                (mode.decode(), os.fsdecode(called), content[end + 1 : end + 1 + size].hex())
            )
            at = end + 1 + size
        self._trees[name] = found
        return found


@contextmanager
def _objects(root: Path) -> Iterator[_Objects]:
    from bridle.workspace.execute_only import call
    from bridle.workspace.git import SAFE, Deadline, GitFailed, git, safe_environment

    env = {**safe_environment(SAFE.items()), "GIT_NO_REPLACE_OBJECTS": "1"}
    try:
        asked = git(root, "rev-parse", "--show-prefix", "HEAD", deadline=Deadline(_SECONDS))
        prefix, head = os.fsdecode(asked).splitlines()
    except (GitFailed, ValueError) as error:
        raise Unreadable(str(error)) from None
    process = call(
        lambda: subprocess.Popen(
            ["git", "--no-optional-locks", "cat-file", "--batch"],
            cwd=root,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    )
    try:
        yield _Objects(process, head, prefix)
    except (ValueError, IndexError) as error:
        raise Unreadable(str(error)) from None
    finally:
        process.kill()
        process.communicate()


def _files(objects: _Objects, commit: str, path: str) -> _Blobs:
    """All that a commit has at a path, which is seen from the workspace."""
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


def _ancestors(objects: _Objects, tips: frozenset[str]) -> frozenset[str]:
    found: set[str] = set()
    todo: deque[str] = deque()
    for tip in tips:
        with suppress(Unreadable):
            todo.append(objects.commit_of(tip))
    while todo and len(found) < _MOST_COMMITS:
        one = todo.popleft()
        if one not in found:
            with suppress(Unreadable):
                parents = objects.commit(one)[1]
                found.add(one)
                todo.extend(parents)
    return frozenset(found)


def _nearest(objects: _Objects, head: str, known: frozenset[str]) -> list[str]:
    """HEAD if it is known, else the known commits that the new ones were made from."""
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
