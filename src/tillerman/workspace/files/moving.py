"""Moves, removes and creates files and folders; follows no link, refuses protected names."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator

from msgspec import Struct

from tillerman.core.permission import guarded_names
from tillerman.core.permission.folder_contents import GENERATED
from tillerman.supervision.secrets import Secrets
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.draft_files import rename
from tillerman.workspace.files.access.open_beneath import FOLDER, status_of, step
from tillerman.workspace.files.access.walk import kind_of
from tillerman.workspace.files.content import text_decoding
from tillerman.workspace.files.content.redacted_text import RedactedText
from tillerman.workspace.files.content.unified_diff import difference
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.reading import MOST_EDITED
from tillerman.workspace.files.refusal import Refused

MOST_ENTRIES = 100_000  # of a folder that is moved or removed
_SECONDS = 30.0
_DEEPEST = 200


class Moved(Struct, frozen=True):
    path: str
    destination: str
    kind: str


class Removed(Struct, frozen=True):
    path: str
    kind: str
    entries: int = 1  # files and folders
    diff: str = ""  # of a single text file
    stopped: str = ""  # why some of it remains


class MadeFolder(Struct, frozen=True):
    path: str
    created: bool


def make_folder(root: ConfinedRoot, path: str) -> MadeFolder:
    before = root.status(path)
    root.make_folder(path)
    return MadeFolder(shown("/".join(root.parts(path))) or ".", before is None)


def move(root: ConfinedRoot, source: str, destination: str) -> Moved:
    """Moves to a name that does not exist; creates its parent folders."""
    old, new = root.new_parts(source.rstrip("/")), root.new_parts(destination.rstrip("/"))
    shown_path, shown_destination = shown("/".join(old)), shown("/".join(new))
    if new[: len(old)] == old:
        raise Refused(
            f"{shown_destination} is {shown_path} itself, or inside it",
            hint="name another destination",
        )
    if root.status("/".join(old)) is None:
        raise Refused(f"{shown_path} does not exist", hint="`list_directory` lists what exists")
    with root.explained(source), root.parent(old, False) as folder:
        status = os.stat(old[-1], dir_fd=folder, follow_symlinks=False)
        _check(root, folder, old, status)
        if stat.S_ISDIR(status.st_mode):
            _check_names(folder, old[-1], new, shown_destination)
        _move(root, folder, old, new)
    return Moved(shown_path, shown_destination, kind_of(status.st_mode))


def _move(root: ConfinedRoot, folder: int, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    shown_path, shown_destination = shown("/".join(old)), shown("/".join(new))
    with (
        root.explained(shown_destination),
        root.parent(new, True) as new_folder,
        _locked(root, (folder, old[-1]), (new_folder, new[-1])),
    ):
        try:
            rename(folder, old[-1], new_folder, new[-1])
        except FileExistsError:
            raise Refused(
                f"{shown_destination} already exists", hint="use another name, or delete it first"
            ) from None
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            raise Refused(
                f"{shown_destination} is on another file system than {shown_path}",
                hint="use a command: mv",
            ) from None
        os.fsync(new_folder)
        os.fsync(folder)


def remove(root: ConfinedRoot, secrets: Secrets, path: str, recursive: bool = False) -> Removed:
    """Removes a file, a link (not its target), or a folder, with its content if `recursive`."""
    parts = root.new_parts(path.rstrip("/"))
    shown_path = shown("/".join(parts))
    if root.status("/".join(parts)) is None:
        raise Refused(f"{shown_path} does not exist", hint="`list_directory` lists what exists")
    with (
        root.explained(path),
        root.parent(parts, False) as folder,
        _locked(root, (folder, parts[-1])),
    ):
        status = os.stat(parts[-1], dir_fd=folder, follow_symlinks=False)
        _check(root, folder, parts, status)
        if not stat.S_ISDIR(status.st_mode):
            diff = _last_text(folder, parts[-1], shown_path, secrets)
            os.unlink(parts[-1], dir_fd=folder)
            os.fsync(folder)
            return Removed(shown_path, kind_of(status.st_mode), diff=diff)
        if not recursive:
            return _remove_empty(folder, parts[-1], shown_path)
        work = _Removal(status.st_dev)
        work.remove(folder, parts[-1], 1)
        os.fsync(folder)
        return Removed(shown_path, "folder", work.removed, stopped=work.stopped)


def _remove_empty(folder: int, name: str, shown_path: str) -> Removed:
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise Refused(
            f"{shown_path} is a folder that is not empty",
            hint="recursive=true deletes it with its content",
        ) from None
    os.fsync(folder)
    return Removed(shown_path, "folder")


def _locked(
    root: ConfinedRoot, *places: tuple[int, str]
) -> contextlib.AbstractContextManager[object]:
    return root.locks.hold_all(list(places)) if root.locks else contextlib.nullcontext()


def _check(root: ConfinedRoot, folder: int, parts: tuple[str, ...], status: os.stat_result) -> None:
    """Checks the file identity and the names below it."""
    shown_path = "/".join(parts)
    if root.guard:
        root.guard.check_file(status, shown_path)
    if guarded_names.is_protected([guarded_names.plain(part) for part in parts], removed=True):
        raise _protected(shown(shown_path), parts[-1])
    if stat.S_ISDIR(status.st_mode):
        _check_names(folder, parts[-1], parts, shown(shown_path))


def _check_names(folder: int, name: str, parts: tuple[str, ...], shown_path: str) -> None:
    """Refuses a folder that contains a protected name, at its current or future path."""
    if not GENERATED.isdisjoint(parts):
        return
    top = step(folder, name, FOLDER, shown_path)
    try:
        for entry, inner in _below(top, parts, time.monotonic() + _SECONDS):
            if guarded_names.is_protected([guarded_names.plain(part) for part in inner]):
                raise _protected(shown_path, shown("/".join(inner[len(parts) :]) or entry))
    finally:
        os.close(top)


def _below(
    folder: int, parts: tuple[str, ...], until: float, room: list[int] | None = None
) -> Iterator[tuple[str, tuple[str, ...]]]:
    room = room if room is not None else [MOST_ENTRIES]
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in listed:
        room[0] -= 1
        if room[0] < 0 or time.monotonic() > until or len(parts) > _DEEPEST:
            raise Refused("the folder is too large to check", hint="use a command instead")
        inner = (*parts, name)
        yield name, inner
        if is_folder and name not in GENERATED:
            try:
                opened = os.open(name, FOLDER, dir_fd=folder)
            except OSError:
                continue  # no longer a folder, or not readable
            try:
                yield from _below(opened, inner, until, room)
            finally:
                os.close(opened)


class _Removal:
    """Removes a tree by descriptors: what is swapped for a link is removed as a link."""

    def __init__(self, device: int) -> None:
        self._device = device
        self._until = time.monotonic() + _SECONDS
        self.removed = 0
        self.stopped = ""

    def remove(self, folder: int, name: str, depth: int) -> None:
        if self.stopped:
            return
        if time.monotonic() > self._until or depth > _DEEPEST:
            self.stopped = "it took too long, or is nested too deeply: the rest still exists"
            return
        status = status_of(folder, name)
        if status is None:
            return
        try:
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(name, dir_fd=folder)
            elif status.st_dev != self._device:
                self.stopped = f"{shown(name)} is on another file system"
                return
            else:
                if not self._emptied(folder, name, depth):
                    return
                os.rmdir(name, dir_fd=folder)
        except OSError as error:
            self.stopped = f"{shown(name)} cannot be removed: {error.strerror}"
            return
        self.removed += 1

    def _emptied(self, folder: int, name: str, depth: int) -> bool:
        inner = os.open(name, FOLDER, dir_fd=folder)
        try:
            for one in os.listdir(inner):  # noqa: PTH208 -- by its descriptor
                self.remove(inner, one, depth + 1)
        finally:
            os.close(inner)
        return not self.stopped


def _last_text(folder: int, name: str, shown_path: str, secrets: Secrets) -> str:
    """Returns the removed text as a diff for the log; "" if it is not a text."""
    try:
        file = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder
        )
    except OSError:
        return ""
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode) or os.fstat(file).st_size > MOST_EDITED:
            return ""
        encoding = text_decoding.survey(file).encoding
        if encoding is None:
            return ""
        redacted = RedactedText("".join(text_decoding.pieces(file, encoding)), secrets)
        return difference(shown_path, redacted.text, None).text
    finally:
        os.close(file)


def _protected(path: str, name: str) -> Refused:
    inside = "" if path.endswith(name) else f", which contains {name},"
    return Refused(
        f"{path}{inside} starts programs or configures agents: tools may not move or delete it",
        hint="tell the user what should be done, so that they can do it",
    )
