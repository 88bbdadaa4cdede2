"""Files that this process has open itself, such as its store.

The locks of a database belong to a process: whoever opens and closes such a file once more, in the
same process, releases them, and another process may then remove what is not yet merged.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

STORE = "store.db"  # also the beginning of the names beside it


def open_files() -> frozenset[int]:
    """Their inodes."""
    found = set()
    for name in os.listdir("/dev/fd"):  # noqa: PTH208 - names are all that is needed
        with suppress(OSError):  # the folder itself is closed again
            status = os.fstat(int(name))
            if stat.S_ISREG(status.st_mode):
                found.add(status.st_ino)
    return frozenset(found)


def is_own_store(name: str, folder: int) -> bool:
    if not name.startswith(STORE):
        return False
    with suppress(OSError):
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino in open_files()
    return False
