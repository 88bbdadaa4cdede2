"""Landlock constants: ABI version of the kernel, and access rights for each kind of path."""

from __future__ import annotations

import ctypes
import os
from typing import NamedTuple

CREATE_RULESET = 444  # the same on every machine
_VERSION = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15

LIST = _READ_DIR
READ = _READ_FILE | _READ_DIR
RUN = READ | _EXECUTE
DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE
# a device node created in the workspace would give access to the raw disk
WORK = ((1 << 15) - 1) & ~(_MAKE_CHAR | _MAKE_BLOCK)


class LandlockRights(NamedTuple):
    """The rights that are refused unless a rule allows them."""

    files: int
    network: int
    scoped: int


def handled(version: int) -> LandlockRights:
    """Returns all rights that this version supports."""
    files = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, _TRUNCATE), (5, _IOCTL_DEV)):
        if version >= since:
            files |= right
    return LandlockRights(files, 3 if version >= 4 else 0, 3 if version >= 6 else 0)


def version() -> int:
    """Returns the ABI version. Raises OSError: ENOSYS if absent, EOPNOTSUPP if disabled."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(CREATE_RULESET, None, 0, _VERSION))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return found
