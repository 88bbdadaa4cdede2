"""Forking a process that is PID 1 of its own pid namespace."""

# contextlib would cost every start some milliseconds
# ruff: noqa: SIM105

from __future__ import annotations

import errno
import os

from bridle.supervision import kernel


def fork_init(*, user: bool) -> int:
    """Like `os.fork`, but the child is the init of a new pid and mount namespace.

    A stage in between enters the namespaces and ends before this returns: had the warden entered
    them itself, all its later children would land in the first one. The init is then a child of
    the nearest subreaper, which must be the caller, and may set its death signal only after it has
    heard from the caller: before that its parent may still be the stage.
    """
    told, tell = os.pipe()
    stage = os.fork()
    if stage == 0:
        if _stage(tell, user=user):
            os._exit(0)
        os.close(told)
        os.close(tell)
        return 0
    os.close(tell)
    answer = os.read(told, 64)
    os.close(told)
    os.waitpid(stage, 0)
    word, _, number = answer.partition(b" ")
    if word != b"init":
        code = int(number or errno.ECHILD)
        raise OSError(code, f"{word.decode() or 'fork'}: {os.strerror(code)}")
    return int(number)


def _stage(tell: int, *, user: bool) -> bool:
    """True in the stage, False in the init."""
    step = b"unshare"
    try:
        _enter(user=user)
        step = b"fork"
        init = os.fork()
        word = b"init %d" % init
    except OSError as error:
        init = -1
        word = b"%s %d" % (step, error.errno or 0)
    if init:
        try:
            os.write(tell, word)
        except OSError:
            pass  # the warden is gone: nobody is left to be told
    return init != 0


def _enter(*, user: bool) -> None:
    flags = kernel.CLONE_NEWPID | kernel.CLONE_NEWNS
    if not user:
        kernel.unshare(flags)
        return
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(flags | kernel.CLONE_NEWUSER)
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{uid} {uid} 1"),
        ("gid_map", f"{gid} {gid} 1"),
    ):
        number = os.open(f"/proc/self/{name}", os.O_WRONLY)
        os.write(number, text.encode())
        os.close(number)
