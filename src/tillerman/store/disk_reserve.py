"""A reserve file beside the store, freed when the disk is full so that a notice can be written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

SIZE = 16 * 1024 * 1024
SHARE_OF_VOLUME = 8  # on a small volume the reserve takes at most an eighth


class DiskReserve:
    def __init__(self, path: Path) -> None:
        self.path = path
        volume = os.statvfs(path.parent)
        self.size = min(SIZE, volume.f_blocks * volume.f_frsize // SHARE_OF_VOLUME)

    def free(self) -> bool:
        """Frees the reserved space; False when there was none."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True

    def restore(self) -> bool:
        """Reserves the space again; False while the volume has too little free space."""
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
