"""Forking a process that is PID 1 of its own pid namespace."""

from __future__ import annotations

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
        os.close(told)
        init = _stage(tell, user=user)
        if init:
            os._exit(0)
        os.close(tell)
        return 0
    os.close(tell)
    answer = os.read(told, 64)
    os.close(told)
    os.waitpid(stage, 0)
    word, _, number = answer.partition(b" ")
    if word != b"init":
        failed = int(number or b"3")
        raise OSError(failed, f"{word.decode() or 'fork'}: {os.strerror(failed)}")
    return int(number)


def _stage(tell: int, *, user: bool) -> int:
    step = b"unshare"
    try:
        _enter(user=user)
        step = b"fork"
        init = os.fork()
    except OSError as error:
        os.write(tell, b"%s %d" % (step, error.errno or 0))
        os._exit(1)
    if init:
        os.write(tell, b"init %d" % init)
    return init


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
