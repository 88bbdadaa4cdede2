"""The temporary folder of a session: writable without asking, removed with the session."""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from collections.abc import Mapping
from pathlib import Path

_NAME = re.compile(r"tillerman-[0-9a-f]{10}-[0-9a-f]{8}")
_YOUNGEST = 1.0  # seconds; a folder is locked right after its creation

# The folders of this process's sessions. Each stays locked while its owner lives.
_open: dict[str, tuple[Path, int]] = {}


def open_scratch(environment: Mapping[str, str], session: str) -> Path | None:
    """Creates a private folder with an unpredictable name, or returns the session's existing one.
    None if it cannot be created."""
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
    import shutil  # lazy: not needed to start an agent

    shutil.rmtree(scratch, ignore_errors=True)
    for session, (path, lock) in list(_open.items()):
        if path == scratch:
            del _open[session]
            os.close(lock)


def remove_scratch_of(session: str) -> None:
    """Removes the folder of a session that is never started."""
    if session in _open:
        remove_scratch(_open[session][0])


def remove_open_scratches() -> None:
    """Removes the folders of sessions that failed to start; closing a session removes its own."""
    for path, _ in list(_open.values()):
        remove_scratch(path)


def sweep_scratches(environment: Mapping[str, str]) -> None:
    """Removes folders whose owners were killed: their locks are free."""
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
    """Locks a private folder of the user; None if another process holds the lock."""
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
