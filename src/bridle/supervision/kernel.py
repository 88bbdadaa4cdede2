"""The few Linux calls Python has no name for."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_REC_SLAVE = 0x4000 | 0x80000
_SIGKILL = 9

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def become_subreaper() -> None:
    """From now on orphaned descendants become children of this process."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def die_with_parent() -> None:
    """SIGKILL this process when the thread that is now its parent ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))


def name_process(name: str) -> None:
    _checked(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0))


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags))


def mount_own_proc() -> None:
    """A /proc of the pid namespace this process is in; later mounts outside still come in."""
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC_SLAVE), None))
    flags = ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC)
    _checked(_libc.mount(b"proc", b"/proc", b"proc", flags, None))
