"""Clears the flags that keep even root from changing a file (`chattr +i`, `chattr +a`)."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
from contextlib import suppress

_GET, _SET = 0x8008_6601, 0x4008_6602  # FS_IOC_GETFLAGS, FS_IOC_SETFLAGS
_FIXED = 0x10 | 0x20  # immutable, append-only


def make_changeable(folder: int, name: str) -> None:
    """Clears the flags of an open folder, and of a file or folder in it; needs privileges."""
    with suppress(OSError):
        _clear(folder)
    with suppress(OSError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            return
        opened = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder
        )
        try:
            _clear(opened)
        finally:
            os.close(opened)


def _clear(opened: int) -> None:
    flags: int = struct.unpack("=I", fcntl.ioctl(opened, _GET, b"\0\0\0\0")[:4])[0]
    if flags & _FIXED:
        fcntl.ioctl(opened, _SET, struct.pack("=I", flags & ~_FIXED))
