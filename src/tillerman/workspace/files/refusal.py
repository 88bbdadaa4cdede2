"""The error of refused workspace operations, with a message and hint for the caller."""

from __future__ import annotations

import errno
import os

from tillerman.core.errors import TillermanError


class Refused(TillermanError):
    """Nothing was done. The message says what was wrong, the hint what to try."""


_WORDS = {
    errno.ENOENT: ("does not exist", "`list_directory` lists what exists"),
    errno.ENOTDIR: (
        "contains a component that is not a folder",
        "`list_directory` lists what exists",
    ),
    errno.EISDIR: ("is a folder", "name a file"),
    errno.EEXIST: ("already exists", "use another name, or read it first"),
    errno.EACCES: ("is not permitted for this user", "check its owner and mode"),
    errno.EPERM: ("is not permitted for this user", "check its owner and mode"),
    errno.EROFS: ("is on a read-only file system", "write elsewhere"),
    errno.ENOSPC: ("cannot be written: the disk is full", "free some space, or write less"),
    errno.EDQUOT: (
        "cannot be written: the disk quota is exceeded",
        "free some space, or write less",
    ),
    errno.EFBIG: ("is larger than the maximum file size", "write less"),
    errno.ENAMETOOLONG: ("is too long for a name", "use a shorter one"),
    errno.ELOOP: ("contains a symbolic link", "use the path without links"),
    errno.EXDEV: ("leaves the workspace", "stay inside it"),
    errno.EAGAIN: ("is being moved by another program", "try again"),
    errno.ENXIO: ("is not a regular file", "name a regular file"),
    errno.EMFILE: ("cannot be opened: too many files are open", "try again in a moment"),
}


def refused(error: OSError, path: str) -> Refused:
    """Converts an OSError about a path."""
    number = error.errno or 0
    what, hint = _WORDS.get(number, (f"causes an error: {os.strerror(number)}", ""))
    return Refused(f"{path} {what}", hint=hint)
