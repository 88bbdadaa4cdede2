"""Session lease: one owner per session, by a file lock that ends with its process."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from tillerman.core.errors import StoreReadOnly
from tillerman.paths import make_private


class SessionLease:
    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    @classmethod
    def take(cls, folder: Path, session: str) -> SessionLease | None:
        """Takes the lease; None while another process holds it."""
        path = folder / f"{session}.lock"
        while True:
            fd = _open(path)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return None
            if _is_at(path, fd):
                return cls(path, fd)
            os.close(fd)  # the previous holder removed the file in between

    def release(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)


def _open(path: Path) -> int:
    try:
        make_private(path.parent)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        raise StoreReadOnly(
            f"cannot start a session: {path} is not writable: {error.strerror}",
            hint="check the owner of the folder; stored sessions can still be listed and shown",
        ) from error


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
