"""Empty files that hold a protected name which does not exist yet, so that nobody can take it.

Each is locked by whoever needs it, and goes when nobody does. One that a killed harness left is
known by its mode and its date, and goes with the next that is needed in its place.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_MODE = 0o444
_DATE = 0x6272646C  # seconds; no other file of this mode and size has it by chance


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
        if not _ours(os.fstat(number)):
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
        if _still(path, number) and _ours(os.fstat(number)):
            with suppress(OSError):
                path.unlink()
    finally:
        os.close(number)


def clear(paths: Iterable[Path]) -> None:
    """Those that a killed harness left, and no living one holds."""
    for path in paths:
        with suppress(OSError):
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
            if _ours(os.fstat(number)):
                let_go(path, number)
            else:
                os.close(number)


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


def _ours(found: os.stat_result) -> bool:
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
