"""One owner per session: a file lock that dies with its process."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Lease:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, folder: Path, session: str) -> Lease | None:
        """None while another process holds it."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(folder / f"{session}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return cls(fd)

    def release(self) -> None:
        os.close(self._fd)
