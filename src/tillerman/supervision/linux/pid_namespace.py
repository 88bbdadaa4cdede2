"""Forks a process that is PID 1 of a new pid namespace."""

from __future__ import annotations

import errno
import os

from tillerman.supervision.linux import syscalls


def fork_init(*, user: bool) -> int:
    """Like `os.fork`, but the child is the init of a new pid and mount namespace.

    If the caller called unshare itself, all its later children would enter the first namespace;
    clone creates the namespaces together with the child. The caller must have no other thread.
    """
    told, tell = os.pipe()
    uid, gid = os.geteuid(), os.getegid()
    flags = syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS | (syscalls.CLONE_NEWUSER if user else 0)
    try:
        pid = syscalls.fork_into(flags)
    except OSError as error:
        os.close(told)
        os.close(tell)
        raise OSError(error.errno, f"clone: {error.strerror}") from None
    if pid == 0:
        os.close(told)
        if user:
            _map(uid, gid, tell)
        os.close(tell)
        return 0
    os.close(tell)
    failed = os.read(told, 64) if user else b""
    os.close(told)
    if failed:
        os.waitpid(pid, 0)
        code = int(failed)
        raise OSError(code, f"mapping users: {os.strerror(code)}")
    return pid


def _map(uid: int, gid: int, tell: int) -> None:
    """Maps only the current user and group."""
    try:
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            number = os.open(f"/proc/self/{name}", os.O_WRONLY)
            os.write(number, text.encode())
            os.close(number)
    except OSError as error:
        os.write(tell, b"%d" % (error.errno or errno.EINVAL))
        os._exit(1)
