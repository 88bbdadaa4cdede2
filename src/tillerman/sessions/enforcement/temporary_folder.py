"""The temporary folder of one session: its agent may write there unasked, and it goes with it."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Mapping
from pathlib import Path

_NAME = re.compile(r"tillerman-[0-9a-f]{10}-[0-9a-f]{8}")
_YOUNGEST = 1.0  # seconds; a folder is locked right after it was made

# The folders of this process's sessions. Each is locked as long as its owner lives.
_open: dict[str, tuple[Path, int]] = {}


def open_scratch(environment: Mapping[str, str], session: str) -> Path | None:
    """A new folder that is the user's alone, by a name that nobody can know before; the same for
    the same session. None where none can be made."""
    if session in _open:
        return _open[session][0]
    try:
        path = Path(_parent(environment), f"tillerman-{session}-{os.urandom(4).hex()}")
        path.mkdir(mode=0o700)
        lock = _locked(path)
    except OSError:
        return None
    if lock is None:
        return None
    _open[session] = path, lock
    return path


def with_scratch(environment: Mapping[str, str], scratch: Path | None) -> Mapping[str, str]:
    return {**environment, "TMPDIR": str(scratch)} if scratch else environment


def remove_scratch(scratch: Path) -> None:
    import shutil  # not on the way to an agent's start

    shutil.rmtree(scratch, ignore_errors=True)
    for session, (path, lock) in list(_open.items()):
        if path == scratch:
            del _open[session]
            os.close(lock)


def remove_open_scratches() -> None:
    """Those of sessions that failed to start; the others are gone when their session is closed."""
    for path, _ in list(_open.values()):
        remove_scratch(path)


def sweep_scratches(environment: Mapping[str, str]) -> None:
    """Remove the folders whose owners were killed: nobody holds their locks."""
    try:
        names = [entry.name for entry in os.scandir(_parent(environment))]
    except OSError:
        return
    for name in filter(_NAME.fullmatch, names):
        path = Path(_parent(environment), name)
        try:
            lock = _locked(path)
        except OSError:
            continue
        if lock is None:
            continue
        try:
            if time.time() - os.fstat(lock).st_ctime > _YOUNGEST:
                remove_scratch(path)
        finally:
            os.close(lock)


def _parent(environment: Mapping[str, str]) -> str:
    return environment.get("TMPDIR") or "/tmp"


def _locked(path: Path) -> int | None:
    """The lock of a folder that is the user's alone; None where another holds it."""
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(lock)
        private = stat.S_IMODE(found.st_mode) == 0o700 and found.st_uid == os.getuid()
        if private and os.path.samestat(found, path.lstat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None
