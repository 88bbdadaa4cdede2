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
    read_end, write_end = os.pipe()
    uid, gid = os.geteuid(), os.getegid()
    flags = syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS | (syscalls.CLONE_NEWUSER if user else 0)
    try:
        pid = syscalls.fork_into(flags)
    except OSError as error:
        os.close(read_end)
        os.close(write_end)
        raise OSError(error.errno, f"clone: {error.strerror}") from None
    if pid == 0:
        os.close(read_end)
        if user:
            _map(uid, gid, write_end)
        os.close(write_end)
        return 0
    os.close(write_end)
    failed = os.read(read_end, 64) if user else b""
    os.close(read_end)
    if failed:
        os.waitpid(pid, 0)
        code = int(failed)
        raise OSError(code, f"mapping users: {os.strerror(code)}")
    return pid


def _map(uid: int, gid: int, write_end: int) -> None:
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
        os.write(write_end, b"%d" % (error.errno or errno.EINVAL))
        os._exit(1)
