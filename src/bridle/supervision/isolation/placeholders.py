"""Empty files that hold a protected name which does not exist yet, so that nobody can take it.

Each is locked by whoever needs it: the harness, and bubblewrap, which may outlive it. It goes when
nobody does: to remove it earlier would take the mount away that keeps a command from the name. One
that a killed harness left is known by its mode and its date, and goes with the next command.
"""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_MODE = 0o444
_DATE = 0x6272646C  # seconds; no other file of this mode and size has it by chance
_ENDING = 1.0  # seconds in which the last process of a sandbox goes, after its end was told
_FLOCK = "@hhqqi4x"  # type, whence, start, length, pid


def hold(path: Path) -> int | None:
    """An open file that keeps the placeholder; None where something else is."""
    while True:
        try:
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            _make(path)
            continue
        except OSError:
            return None  # a link, or closed to us
        if not is_placeholder(os.fstat(number)):
            os.close(number)
            return None
        fcntl.flock(number, fcntl.LOCK_SH)
        if _still(path, number):
            return number
        os.close(number)  # another let go of it in between


def let_go(path: Path, number: int) -> None:
    """Removes it unless another command still needs it, or it is no longer what it was."""
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pass
    else:
        unused = _wait_for_sandboxes(number)
        if unused and _still(path, number) and is_placeholder(os.fstat(number)):
            with suppress(OSError):
                path.unlink()
    finally:
        os.close(number)


def clear(paths: Iterable[Path]) -> None:
    """Those that a killed harness left, and no living one holds."""
    for path in paths:
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            if is_placeholder(os.fstat(number)):
                let_go(path, number)
            else:
                os.close(number)


def _wait_for_sandboxes(number: int) -> bool:
    """Whether no bubblewrap holds it. Those lock as POSIX does, which is another lock than ours."""
    deadline = time.monotonic() + _ENDING
    while True:
        wanted = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        (found, *_) = struct.unpack(_FLOCK, fcntl.fcntl(number, fcntl.F_GETLK, wanted))
        if found == fcntl.F_UNLCK or time.monotonic() > deadline:
            return bool(found == fcntl.F_UNLCK)
        time.sleep(0.005)


def _make(path: Path) -> None:
    """Under another name first: nobody may see it without its date."""
    draft = path.with_name(f"{path.name}.{os.urandom(6).hex()}")
    os.close(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE))
    try:
        draft.chmod(_MODE)
        os.utime(draft, (_DATE, _DATE))
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()


def is_placeholder(found: os.stat_result) -> bool:
    """Also one that another harness made."""
    return (
        stat.S_ISREG(found.st_mode)
        and stat.S_IMODE(found.st_mode) == _MODE
        and found.st_size == 0
        and int(found.st_mtime) == _DATE
        and found.st_uid == os.geteuid()
    )


def _still(path: Path, number: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(number))
    except OSError:
        return False
