"""Imports files into the workspace and exports files from it: bounded copies, no links."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import posixpath
import stat
import zipfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path, PurePosixPath

from msgspec import Struct

from tillerman.paths import make_private
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.open_beneath import open_outside
from tillerman.workspace.files.access.walk import DirectoryWalk, WalkEntry
from tillerman.workspace.files.content import text_decoding
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.files.unpacking import Unpacked, member_names, unpack

MOST_BYTES = 1 << 30
MOST_FILES = 10_000
_SECONDS = 120.0  # for each exported path
_MOST_NAMES = 1_000  # copies with the same name


Closed = Callable[[str, os.stat_result], str]  # returns why a file may not be read, or ""


def open_to_all(path: str, status: os.stat_result) -> str:
    return ""


class Imported(Struct, frozen=True):
    path: str
    size: int
    hash: str


class Exported(Struct, frozen=True):
    path: str  # absolute path of the copy
    size: int
    files: int = 1
    notes: tuple[str, ...] = ()  # what is not included, and why


def import_file(
    root: ConfinedRoot,
    source: str,
    path: str,
    unpack_it: bool = False,
    members: Collection[str] | None = None,
    closed: Closed = open_to_all,
) -> Imported | Unpacked:
    """Imports a file. `source` is an absolute path that the caller has approved for reading.

    `members`: those of an archive that may be written, None for all.
    """
    file = _open_source(source, closed)
    try:
        if unpack_it:
            return unpack(root, file, path, members)
        digest = hashlib.sha256()
        executable = _is_executable(file)
        written = root.write(path, _bounded(file, digest), over=False, executable=executable)
    finally:
        os.close(file)
    return Imported(shown("/".join(root.parts(path))), written.size, digest.hexdigest())


def archive_members(source: str, closed: Closed) -> list[str]:
    """Returns the names in an archive that would be unpacked."""
    file = _open_source(source, closed)
    try:
        return member_names(file)
    finally:
        os.close(file)


def _open_source(source: str, closed: Closed) -> int:
    if not posixpath.isabs(source) or "\0" in source:
        raise Refused(
            f"{source!r} is not an absolute path", hint="use the absolute path of the file"
        )
    if ".." in source.split("/"):  # after a link, `..` leads elsewhere than the text suggests
        raise Refused(f"{shown(source)} contains `..`", hint="use a path without `..`")
    file = open_outside(source)
    try:
        status = os.fstat(file)
        if why := closed(posixpath.normpath(source), status):
            raise Refused(
                f"{source} cannot be imported: {why}", hint="ask the user for a copy of it"
            )
        if status.st_dev in _kernel_devices():
            raise Refused(
                f"{source} is a kernel file, not a regular file", hint="use a command: cat"
            )
        if status.st_size > MOST_BYTES:
            size = f"{status.st_size} bytes; at most {MOST_BYTES} can be imported"
            raise Refused(f"{source} has {size}")
    except BaseException:
        os.close(file)
        raise
    return file


def _kernel_devices() -> set[int]:
    """Returns the devices of /proc and /sys, which expose processes, also this one."""
    return {os.stat(path).st_dev for path in ("/proc", "/sys") if os.path.isdir(path)}  # noqa: PTH112, PTH116


def export_file(root: ConfinedRoot, exports: Path, path: str, name: str | None = None) -> Exported:
    file = root.open_file(path)
    try:
        size = os.fstat(file).st_size
        if size > MOST_BYTES:
            raise Refused(f"{shown(path)} has {size} bytes, at most {MOST_BYTES} can be exported")
        chosen = _chosen(name or root.parts(path)[-1])
        copy, size = _put(
            exports,
            chosen,
            lambda: _bounded(file, hashlib.sha256()),
            executable=_is_executable(file),
        )
    finally:
        os.close(file)
    return Exported(str(copy), size)


def export_zip(root: ConfinedRoot, exports: Path, paths: Sequence[str], name: str) -> Exported:
    if not paths:
        raise Refused("no path given", hint="`.` is the whole workspace")
    chosen = _chosen(name if name.endswith(".zip") else f"{name}.zip")
    packing = _Packing(root, paths)
    copy, size = _put(exports, chosen, packing.chunks)
    return Exported(str(copy), size, packing.files, packing.notes())


def _bounded(file: int, digest: hashlib._Hash) -> Iterator[bytes]:
    """Yields at most the limit, even if the file grows while it is read."""
    for chunk in text_decoding.chunks(file, end=MOST_BYTES):
        digest.update(chunk)
        yield chunk


def _chosen(name: str) -> str:
    if "/" in name or name in ("", ".", ".."):
        raise Refused(f"{name!r} is not a file name", hint="use a name without folders")
    return name


def _is_executable(file: int) -> bool:
    return bool(os.fstat(file).st_mode & stat.S_IXUSR)


def _put(
    exports: Path, name: str, chunks: Callable[[], Iterator[bytes]], *, executable: bool = False
) -> tuple[Path, int]:
    try:
        make_private(exports)
    except OSError as error:
        raise Refused(f"{exports} cannot be created: {error.strerror}") from None
    plain = PurePosixPath(name)
    with ConfinedRoot(exports, guarded=False) as root:
        for number in range(1, _MOST_NAMES):
            tried = name if number == 1 else f"{plain.stem}-{number}{plain.suffix}"
            if root.status(f"./{tried}") is None:
                written = root.write(f"./{tried}", chunks(), over=False, executable=executable)
                return exports / tried, written.size
    raise Refused(f"there are already {_MOST_NAMES} exports named {name}", hint="use another name")


class _Drain(io.RawIOBase):
    """Buffer for zipfile's output, popped piece by piece, so that it is never held as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self._held = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes, /) -> int:  # type: ignore[override]
        self._held += data
        return len(data)

    def pop(self) -> bytes:
        popped = bytes(self._held)
        self._held.clear()
        return popped


class _Packing:
    def __init__(self, root: ConfinedRoot, paths: Sequence[str]) -> None:
        self._root, self._paths = root, paths
        self._left_out: dict[str, int] = {}
        self._paths_packed: set[str] = set()
        self._names: set[str] = set()  # in the zip
        self._renamed = 0
        self._room = MOST_BYTES

    @property
    def files(self) -> int:
        return len(self._names)

    def notes(self) -> tuple[str, ...]:
        notes = [f"{count} left out: {why}" for why, count in self._left_out.items() if count]
        if self._renamed:
            notes.append(f"{self._renamed} renamed: some names are not UTF-8")
        return tuple(notes)

    def chunks(self) -> Iterator[bytes]:
        drain = _Drain()
        with zipfile.ZipFile(drain, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in self._paths:
                walk = DirectoryWalk(self._root, path, seconds=_SECONDS)
                for found in walk:
                    for _ in self._add(archive, found):
                        yield drain.pop()
                for why, count in walk.left_out.items():
                    self._skip(why, count)
                if walk.late:
                    raise Refused(f"{path} takes too long to pack", hint="export fewer files")
        yield drain.pop()

    def _add(self, archive: zipfile.ZipFile, found: WalkEntry) -> Iterator[None]:
        if found.kind == "folder" or found.path in self._paths_packed:
            return
        opened = found.open() if found.kind == "file" else None
        if opened is None:
            self._skip("links, pipes and unreadable files", 1)
            return
        try:
            if len(self._names) >= MOST_FILES:
                raise Refused(f"there are more than {MOST_FILES} files", hint="export fewer files")
            info = zipfile.ZipInfo(self._new_name(found.path))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (opened.status.st_mode & 0o777 | 0o100000) << 16
            with contextlib.closing(archive.open(info, "w")) as member:
                for chunk in text_decoding.chunks(opened.number):
                    self._room -= len(chunk)
                    if self._room < 0:
                        raise Refused(
                            f"there are more than {MOST_BYTES} bytes", hint="export fewer files"
                        )
                    member.write(chunk)
                    yield
        finally:
            os.close(opened.number)

    def _new_name(self, path: str) -> str:
        """Returns a name for a file. A zip has names of text: those that are not may look alike."""
        self._paths_packed.add(path)
        name = shown(path)
        number = 1
        while name in self._names:
            number += 1
            name = f"{shown(path)}-{number}"
        self._renamed += name != path
        self._names.add(name)
        return name

    def _skip(self, why: str, count: int) -> None:
        self._left_out[why] = self._left_out.get(why, 0) + count
