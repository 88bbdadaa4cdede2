"""A file of nothing beside the store, given up when the disk is full so that this can be said."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

SIZE = 16 * 1024 * 1024
SHARE_OF_VOLUME = 8  # on a small volume the reserve takes an eighth at most


class DiskReserve:
    def __init__(self, path: Path) -> None:
        self.path = path
        volume = os.statvfs(path.parent)
        self.size = min(SIZE, volume.f_blocks * volume.f_frsize // SHARE_OF_VOLUME)

    def free(self) -> bool:
        """Give the space back to the volume; False when there was none to give."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True

    def restore(self) -> bool:
        """Take the space again; False while the volume has no room for it."""
        with contextlib.suppress(OSError):
            if self.path.stat().st_size >= self.size:
                return True
        made = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _occupy(descriptor, self.size)
            finally:
                os.close(descriptor)
            made.replace(self.path)
        except OSError:
            made.unlink(missing_ok=True)
            return False
        return True


def _occupy(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, size)
    else:
        os.write(descriptor, bytes(size))
