"""Draft files: written completely before they get their name, or atomically replace a file.

To replace a file, the two are exchanged first and the old one is checked: if another program
changed it meanwhile, they are exchanged back and nothing is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable
from typing import Self

from tillerman.workspace.files.access.open_beneath import status_of
from tillerman.workspace.files.access.path_locks import TEMPORARY, HeldLock
from tillerman.workspace.files.refusal import Refused

_NOREPLACE, _EXCHANGE = 1, 2
_NOT_SUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_MOST_EXCHANGES = 16
_MOUNT = re.compile(rb"mnt_id:.*")

_rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)  # absent in old C libraries


class ObservedFile:
    """A file as it was read. It is held open, so its inode is not reused."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.status = os.fstat(file)

    def is_at(self, folder: int, name: str) -> bool:
        return _is_file(self.status, status_of(folder, name))

    def is_unchanged(self) -> bool:
        now = os.fstat(self.file)
        was = self.status
        return (now.st_size, now.st_mtime_ns) == (was.st_size, was.st_mtime_ns)


class DraftFile:
    """A file without a name, if the file system supports it, so that a kill leaves nothing."""

    def __init__(
        self, folder: int, target: int, mode: int, *, unnamed: bool, lock: HeldLock | None
    ) -> None:
        """Creates the draft in `folder`, to be placed in `target`; they may be the same."""
        self._folder, self._target = folder, target
        self._lock = lock
        self._temporary = ""
        self.file = _unnamed(folder, mode) if unnamed else -1
        self._unnamed = f"/proc/self/fd/{self.file}" if self.file >= 0 else ""
        if self.file < 0:
            flags = os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self.file = os.open(self._new_name(), flags, mode, dir_fd=folder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.file)
        self._discard()

    def fill(self, chunks: Iterable[bytes]) -> int:
        size = 0
        for chunk in chunks:
            left = memoryview(chunk)
            while left:
                left = left[os.write(self.file, left) :]
            size += len(chunk)
        return size

    def resemble(self, before: os.stat_result) -> None:
        """Copies owner and mode of the file it replaces, except for the set-user-id bits."""
        now = os.fstat(self.file)
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            with contextlib.suppress(PermissionError):
                os.fchown(self.file, before.st_uid, before.st_gid)
        os.fchmod(self.file, stat.S_IMODE(before.st_mode) & 0o777)

    def create(self, name: str) -> None:
        """Places the draft at a name that does not exist."""
        try:
            self._link(self._target, name)
        except OSError as error:
            if self._unnamed or error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
                raise
            # a file system without hard links
            rename(self._folder, self._temporary, self._target, name)
            self._forget_name()

    def replace(self, name: str, seen: ObservedFile, is_unchanged: Callable[[], bool]) -> None:
        """Replaces the file `seen`, if it is still there and unchanged."""
        if self._unnamed:
            self._link(self._folder, self._new_name())
        if not (seen.is_at(self._target, name) and seen.is_unchanged()):
            raise _changed(name)
        try:
            self._exchange(name)
        except FileNotFoundError:
            raise _changed(name) from None
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            os.rename(self._temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._target)
            self._forget_name()
            return
        if seen.is_at(self._folder, self._temporary) and is_unchanged():
            self._discard()  # the old file, which has the temporary name now
            return
        self._roll_back(name)
        raise _changed(name)

    def _roll_back(self, name: str) -> None:
        """Puts back the file that was taken out.

        If another program replaced the draft meanwhile, its file is newer and is put back instead.
        """
        placed: os.stat_result | None = os.fstat(self.file)
        for _ in range(_MOST_EXCHANGES):
            taken = status_of(self._folder, self._temporary)
            try:
                self._exchange(name)
            except FileNotFoundError:  # it was removed: the file taken out is dropped as well
                return
            if placed and _is_file(placed, status_of(self._folder, self._temporary)):
                return
            placed = taken

    def _exchange(self, name: str) -> None:
        _renameat2(self._folder, self._temporary, self._target, name, _EXCHANGE)

    def _new_name(self) -> str:
        name = TEMPORARY + secrets.token_hex(8)
        if self._lock:
            self._lock.note(self._folder, name)
        self._temporary = name
        return name

    def _discard(self) -> None:
        """Removes the file with the temporary name."""
        if self._temporary:
            with contextlib.suppress(OSError):
                os.unlink(self._temporary, dir_fd=self._folder)
            self._forget_name()

    def _forget_name(self) -> None:
        self._temporary = ""
        if self._lock:
            self._lock.clear()

    def _link(self, folder: int, name: str) -> None:
        os.link(
            self._unnamed or self._temporary,
            name,
            src_dir_fd=self._folder,
            dst_dir_fd=folder,
            follow_symlinks=bool(self._unnamed),  # follows the /proc link to the file itself
        )


def on_one_mount(folder: int, other: int) -> bool:
    """Returns whether a file can be renamed from one open folder to the other."""
    if os.fstat(folder).st_dev != os.fstat(other).st_dev:
        return False
    return _mount(folder) == _mount(other) != b""


def _mount(folder: int) -> bytes:
    """Returns the mount id; empty if the kernel does not report it."""
    try:
        file = os.open(f"/proc/self/fdinfo/{folder}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = _MOUNT.search(os.read(file, 4_096))
    finally:
        os.close(file)
    return found[0] if found else b""


def rename(folder: int, name: str, new_folder: int, new_name: str) -> None:
    """Renames to a new name. Raises FileExistsError if it exists."""
    try:
        _renameat2(folder, name, new_folder, new_name, _NOREPLACE)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED or isinstance(error, FileExistsError):
            raise
        if status_of(new_folder, new_name) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name) from None
        os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=new_folder)


def _renameat2(folder: int, name: str, new_folder: int, new_name: str, flags: int) -> None:
    if _rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)
    if _rename(folder, os.fsencode(name), new_folder, os.fsencode(new_name), flags):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)


def _is_file(known: os.stat_result, now: os.stat_result | None) -> bool:
    return now is not None and (now.st_dev, now.st_ino) == (known.st_dev, known.st_ino)


def _changed(name: str) -> Refused:
    return Refused(
        f"{name} was changed by another program at the same time: nothing was written",
        hint="read it again, then try again",
    )


def _unnamed(folder: int, mode: int) -> int:
    """Opens an unnamed file; -1 if the file system does not support it."""
    try:
        return os.open(".", os.O_WRONLY | os.O_CLOEXEC | os.O_TMPFILE, mode, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return -1
        raise
