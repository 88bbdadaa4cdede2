"""Quarantine for undone changes: files moved out of the workspace, listed, and restorable.

Each item has its own folder with the moved file (`content`) and its description (`item.json`). No
link is followed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from tillerman.core.timestamps import rfc3339
from tillerman.paths import make_private

MOST_ENTRIES = 200  # per session; later items are removed
MOST_BYTES = 64 << 20  # copied, if the folder is on another file system
MOST_FILES = 2_000
CONTENT, ITEM = "content", "item.json"

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Act = Literal["created", "changed", "deleted", "moved"]


class Item(msgspec.Struct, frozen=True, omit_defaults=True):
    """One change that was undone."""

    id: str
    workspace: str
    path: str  # relative to the workspace, as the file system spells it
    act: Act
    at: str = ""  # UTC, RFC 3339
    settings: tuple[tuple[str, str | None], ...] = ()  # of a git config: only these were undone
    taken_back: bool = False
    raw: str = ""  # the path in hex, if it is not UTF-8

    @property
    def file(self) -> str:
        return os.fsdecode(bytes.fromhex(self.raw)) if self.raw else self.path


class Quarantine:
    """Quarantine of one session in one workspace: a private folder, created when needed."""

    def __init__(self, folder: Path, workspace: Path = Path()) -> None:
        self._folder = folder
        self._workspace = workspace
        self._room = MOST_BYTES
        self._files = MOST_FILES
        self._entries_left = MOST_ENTRIES

    def move_in(self, folder: int, name: str, path: str = "", act: Act = "created") -> str:
        """Moves a file out of an open folder. Returns its new path, or "" if it was removed."""
        if self._entries_left <= 0:
            _remove(folder, name)
            return ""
        with self._open() as ours, _new_folder(ours) as (place, into):
            self._move(folder, name, into)
            self._describe(place, path or name, act)
        return str(self._folder / place / CONTENT)

    def copy(
        self,
        folder: int,
        name: str,
        path: str = "",
        act: Act = "changed",
        settings: Sequence[tuple[str, str | None]] = (),
    ) -> str:
        """Like `take`, but the file stays: it is about to be replaced."""
        if self._entries_left <= 0:
            return ""
        with self._open() as ours:
            try:
                with _new_folder(ours) as (place, into):
                    self._link(folder, name, into)
                    self._describe(place, path or name, act, settings)
            except OSError:
                return ""
        return str(self._folder / place / CONTENT)

    def note(self, path: str, act: Act) -> str:
        """Records a change without content: a removal."""
        if self._entries_left <= 0:
            return ""
        with suppress(OSError), self._open() as ours, _new_folder(ours) as (place, _):
            self._describe(place, path, act)
            return str(self._folder / place / CONTENT)
        return ""

    def _describe(
        self, place: str, path: str, act: Act, settings: Sequence[tuple[str, str | None]] = ()
    ) -> None:
        at = rfc3339(datetime.now(UTC))
        raw = os.fsencode(path)
        text = raw.decode("utf-8", "replace")
        kept = "" if os.fsencode(text) == raw else raw.hex()
        item = Item(place, str(self._workspace), text, act, at, tuple(settings), raw=kept)
        (self._folder / place / ITEM).write_bytes(msgspec.json.encode(item))

    @contextmanager
    def _open(self) -> Iterator[int]:
        """Opens the folder for one more item."""
        self._entries_left -= 1
        make_private(self._folder)
        ours = os.open(self._folder, _FOLDER)
        try:
            yield ours
        finally:
            os.close(ours)

    def _link(self, folder: int, name: str, into: int) -> None:
        try:
            os.link(name, CONTENT, src_dir_fd=folder, dst_dir_fd=into, follow_symlinks=False)
        except OSError:
            self._copy(folder, name, into, CONTENT)

    def _move(self, folder: int, name: str, into: int) -> None:
        try:
            os.rename(name, CONTENT, src_dir_fd=folder, dst_dir_fd=into)
        except PermissionError:
            # a folder without write permission cannot be moved into another
            _open_up(folder, name)
            os.rename(name, CONTENT, src_dir_fd=folder, dst_dir_fd=into)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            held = f".tillerman-aside-{os.urandom(8).hex()}"
            os.rename(name, held, src_dir_fd=folder, dst_dir_fd=folder)
            with suppress(OSError):
                self._copy(folder, held, into, CONTENT)
            _remove(folder, held)

    def _copy(self, folder: int, name: str, into: int, called: str = "") -> None:
        """Copies files, folders and links, within the limits."""
        called = called or name
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        self._files -= 1
        if self._files < 0:
            return
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(name, dir_fd=folder), called, dir_fd=into)
        elif stat.S_ISREG(status.st_mode):
            self._copy_file(folder, name, into, called)
        elif stat.S_ISDIR(status.st_mode):
            os.mkdir(called, 0o700, dir_fd=into)
            source = os.open(name, _FOLDER, dir_fd=folder)
            target = os.open(called, _FOLDER, dir_fd=into)
            try:
                with os.scandir(source) as entries:
                    for entry in entries:
                        self._copy(source, entry.name, target)
            finally:
                os.close(source)
                os.close(target)

    def _copy_file(self, folder: int, name: str, into: int, called: str) -> None:
        source = os.open(name, _FILE, dir_fd=folder)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            target = os.open(called, flags, 0o600, dir_fd=into)
            with os.fdopen(target, "wb") as out:
                while self._room > 0 and (part := os.read(source, min(1 << 20, self._room))):
                    self._room -= len(part)
                    out.write(part)
        finally:
            os.close(source)


@contextmanager
def _new_folder(within: int) -> Iterator[tuple[str, int]]:
    """Creates a folder; yields its name and its open descriptor."""
    place = os.urandom(4).hex()
    os.mkdir(place, 0o700, dir_fd=within)
    into = os.open(place, _FOLDER, dir_fd=within)
    try:
        yield place, into
    finally:
        os.close(into)


def _open_up(folder: int, name: str) -> None:
    held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if stat.S_ISDIR(os.fstat(held).st_mode):
            Path(f"/proc/self/fd/{held}").chmod(0o700)
    finally:
        os.close(held)


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except IsADirectoryError:
        shutil.rmtree(name, dir_fd=folder)


def items(root: Path) -> Iterator[tuple[Path, Item]]:
    """Yields the items of all sessions below `root` with their folders, oldest first."""
    found = []
    for described in root.glob(f"*/*/{ITEM}"):
        with suppress(OSError, msgspec.MsgspecError):
            item = msgspec.json.decode(described.read_bytes(), type=Item)
            found.append((described.parent, item))
    yield from sorted(found, key=lambda one: one[1].at)


def mark_taken_back(folder: Path, item: Item) -> None:
    taken = msgspec.structs.replace(item, taken_back=True)
    draft = folder / f"{ITEM}.new"
    draft.write_bytes(msgspec.json.encode(taken))
    draft.replace(folder / ITEM)
