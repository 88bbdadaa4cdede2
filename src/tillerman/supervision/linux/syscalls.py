"""Linux system calls that Python does not wrap: prctl, clone, unshare, mount."""

from __future__ import annotations

import ctypes
import errno
import os

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000

# Number of clone. Other machines order its arguments differently, except for the first.
_CLONE = {"x86_64": 56, "aarch64": 220, "riscv64": 220}

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_REC_SLAVE = 0x4000 | 0x80000
_SIGKILL, _SIGCHLD = 9, 17

_libc = ctypes.CDLL(None, use_errno=True)
_python = ctypes.PyDLL(None, use_errno=True)  # calls keep the GIL, as Python's own fork does


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process from now on."""
    _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))


def die_with_parent() -> None:
    """Has this process killed (SIGKILL) when its current parent thread ends."""
    _checked(_libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0))


def name_process(name: str) -> None:
    _checked(_libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0))


def hide_memory() -> None:
    """Denies other processes of the user access to this one's memory and open files."""
    _checked(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0))


def unshare(flags: int) -> None:
    _checked(_libc.unshare(flags))


def fork_into(flags: int) -> int:
    """Like `os.fork`, with the child in new namespaces. Raises OSError if unsupported."""
    number = _CLONE.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    _python.PyOS_BeforeFork()
    # no stack: like after a fork, the child continues on a copy of this one
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
    """Mounts a /proc of the current pid namespace; later mounts outside still propagate in."""
    _checked(_libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC_SLAVE), None))
    flags = ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC)
    _checked(_libc.mount(b"proc", b"/proc", b"proc", flags, None))
