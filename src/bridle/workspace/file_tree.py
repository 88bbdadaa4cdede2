"""The files on disk that the policy looks up while it decides: bounded, and never followed out."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from bridle.core.permission.trees import Listing

MOST = 20_000  # entries that are looked at for one folder
_INDEX = b"DIRC"


class DiskFiles:
    """Holds nothing: what it tells is as of now."""

    def glob(self, pattern: str) -> Sequence[str] | None:
        """The paths that a shell would put in the place of the pattern, links not followed."""
        first, *parts = pattern.split("/")
        found = [first or "/"]
        for part in filter(None, parts):
            found = [path for folder in found for path in _matching(folder, part)]
            if len(found) > MOST:
                return None
        return found

    def below(self, folder: str, skipped: frozenset[str]) -> Listing:
        """Breadth first, so that what is near is seen even in a large folder."""
        found: list[str] = []
        waiting = deque([("", folder)])
        while waiting:
            prefix, path = waiting.popleft()
            try:
                entries = sorted(os.scandir(path), key=_name)
            except OSError:
                continue  # a file, or one that cannot be read by the agent either
            for entry in entries:
                relative = prefix + entry.name
                found.append(relative)
                if len(found) > MOST:
                    return Listing(tuple(found), complete=False)
                if entry.name not in skipped and entry.is_dir(follow_symlinks=False):
                    waiting.append((f"{relative}/", entry.path))
        return Listing(tuple(found))

    def tracked(self, path: str) -> bool:
        """By the index of the repository that it lies in; what cannot be read may hold it."""
        for folder in _parents(path):
            index = _index_of(folder)
            if index is not None:
                name = os.fsencode(os.path.relpath(path, folder))
                return _lists(index, name)
        return False


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


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


def _index_of(folder: str) -> bytes | None:
    """None where no repository begins here."""
    git = os.path.join(folder, ".git")  # noqa: PTH118
    try:
        if os.path.isfile(git):  # noqa: PTH113
            with open(git, "rb") as file:  # noqa: PTH123
                pointer = file.read(4096)
            git = os.path.join(folder, os.fsdecode(pointer.removeprefix(b"gitdir: ").strip()))  # noqa: PTH118
        with open(os.path.join(git, "index"), "rb") as file:  # noqa: PTH118, PTH123
            return file.read()
    except FileNotFoundError:
        return b"" if os.path.isdir(git) else None  # noqa: PTH112
    except OSError:
        return _INDEX + b"\0\0\0\4"  # as if it were in a form that is not read here


def _lists(index: bytes, name: bytes) -> bool:
    """Each entry ends with two bytes that hold the length of the name, the name, and NUL."""
    if not index.startswith(_INDEX) or index[4:8] not in (b"\0\0\0\2", b"\0\0\0\3"):
        return bool(index)  # names are cut short in version 4
    at = index.find(name + b"\0")
    while at >= 0:
        length = int.from_bytes(index[at - 2 : at], "big") & 0xFFF
        extended = int.from_bytes(index[at - 4 : at - 2], "big") & 0xFFF
        if min(len(name), 0xFFF) in (length, extended):
            return True
        at = index.find(name + b"\0", at + 1)
    return False
