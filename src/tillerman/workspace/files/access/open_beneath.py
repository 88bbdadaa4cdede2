"""Opens files beneath a folder descriptor: with openat2, or by name without links."""

from __future__ import annotations

import ctypes
import errno
import os
import posixpath
import stat
from collections.abc import Sequence

from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused, refused

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
BENEATH = 0x08 | 0x02  # RESOLVE_BENEATH, RESOLVE_NO_MAGICLINKS
_OPENAT2 = 437  # on every architecture
_TRIES = 64  # while other programs rename folders
_ALWAYS = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def has_openat2(folder: int) -> bool:
    """Returns whether openat2 works: a kernel may lack it, and a container may forbid it."""
    try:
        os.close(openat2(folder, ".", os.O_PATH, BENEATH))
    except OSError as error:
        if error.errno in (errno.ENOSYS, errno.EPERM):
            return False
        raise
    return True


def openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    how = _How(flags | _ALWAYS if not flags & os.O_PATH else flags | os.O_CLOEXEC, 0, resolve)
    name = os.fsencode(path)
    number = 0
    for _ in range(_TRIES):
        opened: int = _libc.syscall(
            _OPENAT2, folder, name, ctypes.byref(how), ctypes.c_size_t(ctypes.sizeof(how))
        )
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):
            break
    raise OSError(number, os.strerror(number), path)


def walk_down(folder: int, parts: Sequence[str], flags: int, shown_folder: str = "") -> int:
    """Opens a path component by component, following no link. Errors name it with its folder."""
    here = os.open(".", FOLDER, dir_fd=folder) if not parts else os.dup(folder)
    for at, name in enumerate(parts, 1):
        last = at == len(parts)
        kind = flags | _ALWAYS if last else os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            here, above = step(here, name, kind, shown_folder + "/".join(parts[:at])), here
        except BaseException:
            os.close(here)
            raise
        os.close(above)
    return here


def step(folder: int, name: str, flags: int, path: str) -> int:
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        try:
            target = os.readlink(name, dir_fd=folder)
        except OSError:
            raise error from None  # not a link, or no longer one
        raise is_link(path, target) from None


def open_outside(path: str) -> int:
    """Opens a regular file by its absolute path without links.

    So the path that was checked is the file that is opened.
    """
    parts = [part for part in posixpath.normpath(path).split("/") if part]
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        opened = walk_down(root, parts, os.O_RDONLY, "/")
    except OSError as error:
        raise refused(error, shown(path)) from None
    finally:
        os.close(root)
    mode = os.fstat(opened).st_mode
    if not stat.S_ISREG(mode):
        os.close(opened)
        raise not_a_file(shown(path), mode)
    return opened


def status_of(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_link(path: str, target: str) -> Refused:
    return Refused(
        f"{shown(path)} is a link to {shown(target)}",
        hint="use the path it points to",
    )


def not_a_file(path: str, mode: int) -> Refused:
    if stat.S_ISDIR(mode):
        return Refused(f"{shown(path)} is a folder", hint="name a file, or list the folder")
    kinds = (
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a device"),
        (stat.S_ISBLK, "a device"),
    )
    kind = next((name for test, name in kinds if test(mode)), "not a regular file")
    return Refused(f"{shown(path)} is {kind}", hint="name a regular file")
