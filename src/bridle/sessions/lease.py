"""One owner per session: a file lock that dies with its process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Lease:
    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    @classmethod
    def take(cls, folder: Path, session: str) -> Lease | None:
        """None while another process holds it."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / f"{session}.lock"
        while True:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            if _is_at(path, fd):
                return cls(path, fd)
            os.close(fd)  # its last holder took the file away in between

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
