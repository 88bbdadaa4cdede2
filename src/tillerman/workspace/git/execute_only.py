"""Runs git in a thread that can execute only git: no hook, filter or monitor program.

Landlock restricts the calling thread and its children, and no other thread of this process. Only
the right to execute is dropped; files can be read and written as before.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from tillerman.supervision.isolation.landlock import version

T = TypeVar("T")
_EXECUTE = 1
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _BENEATH = 444, 445, 446, 1
_NO_NEW_PRIVILEGES = 38
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-*.so.1")


def call(work: Callable[[], T]) -> T:
    """Runs `work` in a restricted thread, or in this one if that is not available."""
    programs = _programs(shutil.which("git"))
    if not programs:
        return work()
    done: Future[T] = Future()
    threading.Thread(target=_run, args=(work, done, programs), name="git", daemon=True).start()
    return done.result()


@cache
def _programs(git: str | None) -> tuple[str, ...]:
    """Returns git, its helper programs and the loader that starts it.

    Empty if the restriction is not possible: no Landlock, git is a script, or the user has filters.
    """
    try:
        version()
        if git is None or Path(git).read_bytes()[:2] == b"#!" or _has_own_filters():
            return ()
    except OSError:
        return ()
    said = subprocess.run([git, "--exec-path"], capture_output=True, check=False).stdout
    loaders = [found for one in _LOADERS for found in Path("/").glob(one[1:])]
    paths = [Path(git), Path(os.fsdecode(said.strip())), *loaders]
    return tuple(str(path.resolve()) for path in paths if path.exists())


def _has_own_filters() -> bool:
    """Returns whether the user has global filters (Git LFS), which git needs to read some files."""
    words = ["git", "config", "--get-regexp", r"^filter\..*\.(clean|process)$"]
    said = subprocess.run(words, cwd="/", capture_output=True, check=False)
    return bool(said.stdout)


def _run(work: Callable[[], T], done: Future[T], programs: tuple[str, ...]) -> None:
    try:
        _restrict(programs)
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)


def _restrict(programs: tuple[str, ...]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def checked(result: int) -> int:
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    handled = _EXECUTE.to_bytes(8, "little")
    rules = checked(libc.syscall(_CREATE_RULESET, handled, len(handled), 0))
    try:
        for path in programs:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = _EXECUTE.to_bytes(8, "little") + place.to_bytes(4, "little")
            try:
                checked(libc.syscall(_ADD_RULE, rules, _BENEATH, rule, 0))
            finally:
                os.close(place)
        checked(libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
        checked(libc.syscall(_RESTRICT_SELF, rules, 0))
    finally:
        with suppress(OSError):
            os.close(rules)
