"""The few Linux calls Python has no name for."""

from __future__ import annotations

import ctypes
import errno
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

# The number of clone; the order of its arguments differs elsewhere, but not of the first.
_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_REC_SLAVE = 0x4000 | 0x80000
_SIGKILL, _SIGCHLD = 9, 17

_libc = ctypes.CDLL(None, use_errno=True)
_python = ctypes.PyDLL(None, use_errno=True)  # calls in it are made as Python's own are


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


def hide_memory() -> None:
    """Nobody of the same user may look into this process, or take its open files."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags))


def fork_into(flags: int) -> int:
    """Like `os.fork`, with the child in new namespaces. OSError where the kernel has none."""
    number = _CLONE.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    _python.PyOS_BeforeFork()
    # no stack: as after a fork, the child goes on with a copy of ours
    pid: int = _python.syscall(number, ctypes.c_ulong(flags | _SIGCHLD), None, None, None, None)
    code = ctypes.get_errno()
    if pid == 0:
        _python.PyOS_AfterFork_Child()
        return 0
    _python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(code, os.strerror(code))
    return pid


def mount_own_proc() -> None:
    """A /proc of the pid namespace this process is in; later mounts outside still come in."""
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC_SLAVE), None))
    flags = ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC)
    _checked(_libc.mount(b"proc", b"/proc", b"proc", flags, None))
