"""Unpacks archives into the workspace: only files and folders, bounded, confined."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Collection, Iterator

from msgspec import Struct

from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.content.archive_reader import (
    ArchiveMember,
    Damaged,
    TooMuch,
    members,
)
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused

MOST_FILES = 10_000
MOST_BYTES = 1 << 30
RATIO = 200  # maximum ratio of unpacked to archive bytes
SMALL = 16 << 20  # unpacked bytes that are always allowed
_SECONDS = 120.0
_TOLD = 20
_DRIVE = re.compile(r"[A-Za-z]:")


class Skipped(Struct, frozen=True):
    name: str
    why: str


class Unpacked(Struct, frozen=True):
    path: str
    files: int
    size: int
    skipped: tuple[Skipped, ...] = ()
    more_skipped: int = 0
    stopped: str = ""  # why the rest of the archive was not unpacked


def member_names(archive: int) -> list[str]:
    """Returns the files that would be unpacked, relative to the target folder."""
    found: list[str] = []
    until = time.monotonic() + _SECONDS
    try:
        for member in members(archive, _most(archive)):
            if len(found) >= MOST_FILES or time.monotonic() > until:
                break
            with contextlib.suppress(Refused):
                if member.kind == "file" and (name := inner_name(member.name)):
                    found.append(name)
    except (Damaged, TooMuch):
        pass  # what follows is not unpacked either
    return found


def unpack(
    root: ConfinedRoot, archive: int, path: str, allowed: Collection[str] | None = None
) -> Unpacked:
    """Unpacks into the folder `path`. Existing files are not changed.

    `allowed`: the files that may be written, None for all.
    """
    read = os.fstat(archive).st_size
    most = _most(archive)
    inside = members(archive, most)
    work = _Work(root, "/".join(root.parts(path)), time.monotonic() + _SECONDS, allowed)
    try:
        with root.made_folder(path):
            stopped = _unpack_all(work, inside, most, read)
            if stopped and not work.made:
                raise _Nothing
    except _Nothing:
        pass
    return work.result(stopped)


def _unpack_all(work: _Work, inside: Iterator[ArchiveMember], most: int, read: int) -> str:
    """Returns why it was stopped, or ""."""
    try:
        for count, member in enumerate(inside):
            if count >= MOST_FILES:
                return f"it contains more than {MOST_FILES} members"
            work.unpack(member)
    except Damaged as error:
        return f"the archive is damaged: {error}"
    except TooMuch:
        return f"more than {most} bytes come out of {read}"
    except _Late:
        return f"it took longer than {_SECONDS:.0f} s"
    return ""


def _most(archive: int) -> int:
    return min(MOST_BYTES, max(SMALL, os.fstat(archive).st_size * RATIO))


class _Late(Exception):
    pass


class _Nothing(Exception):
    """No file was unpacked: the folder for them is removed."""


class _Work:
    def __init__(
        self, root: ConfinedRoot, folder: str, until: float, allowed: Collection[str] | None
    ) -> None:
        self._root, self._folder, self._until = root, folder, until
        self._allowed = allowed
        self.made: set[str] = set()
        self._skipped: list[Skipped] = []
        self._more = 0
        self._size = 0

    def unpack(self, member: ArchiveMember) -> None:
        if time.monotonic() > self._until:
            raise _Late
        try:
            self._put(member)
        except Refused as refusal:
            self._skip(member.name, refusal.message)

    def _put(self, member: ArchiveMember) -> None:
        name = inner_name(member.name)
        if member.kind not in ("file", "folder"):
            raise Refused(
                f"a {member.kind}" if member.kind != "of an unknown kind" else member.kind
            )
        if not name:
            return  # the folder itself
        path = f"{self._folder}/{name}" if self._folder else name
        if member.kind == "folder":
            self._root.make_folder(path)
            return
        if name in self.made:
            raise Refused("duplicate name")
        if self._allowed is not None and name not in self._allowed:
            raise Refused("the archive changed after it was checked")
        written = self._root.write(
            path, self._chunks(member), over=False, executable=member.executable, durable=False
        )
        self.made.add(name)
        self._size += written.size

    def _chunks(self, member: ArchiveMember) -> Iterator[bytes]:
        for chunk in member.chunks():
            if time.monotonic() > self._until:
                raise _Late
            yield chunk

    def _skip(self, name: str, why: str) -> None:
        if len(self._skipped) < _TOLD:
            told = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            self._skipped.append(Skipped(told[:200], why))
        else:
            self._more += 1

    def result(self, stopped: str) -> Unpacked:
        return Unpacked(
            shown(self._folder) or ".",
            len(self.made),
            self._size,
            tuple(self._skipped),
            self._more,
            stopped,
        )


def inner_name(name: str) -> str:
    """Returns a member's path relative to the target folder; refuses unsafe names."""
    if name.startswith("/") or _DRIVE.match(name):
        raise Refused("an absolute path")
    if "\\" in name or "\0" in name:
        raise Refused("a name with a backslash or a NUL")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Refused("a path that contains `..`")
    return "/".join(parts)
