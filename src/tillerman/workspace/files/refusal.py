"""The error of refused workspace operations, with a message and hint for the caller."""

from __future__ import annotations

import errno
import os

from tillerman.core.errors import TillermanError


class Refused(TillermanError):
    """Nothing was done. The message says what was wrong, the hint what to try."""


_WORDS = {
    errno.ENOENT: ("is not there", "`list_directory` shows what is"),
    errno.ENOTDIR: ("goes through something that is no folder", "`list_directory` shows what is"),
    errno.EISDIR: ("is a folder", "name a file"),
    errno.EEXIST: ("is there already", "take another name, or read it first"),
    errno.EACCES: ("may not be touched by this user", "look at its owner and mode"),
    errno.EPERM: ("may not be touched by this user", "look at its owner and mode"),
    errno.EROFS: ("lies on a read-only file system", "write elsewhere"),
    errno.ENOSPC: ("does not fit on the disk", "free some space, or write less"),
    errno.EDQUOT: ("does not fit in the quota", "free some space, or write less"),
    errno.EFBIG: ("is larger than a file may be", "write less"),
    errno.ENAMETOOLONG: ("is too long a name", "use a shorter one"),
    errno.ELOOP: ("goes through a link", "use the path without links"),
    errno.EXDEV: ("leads out of the workspace", "stay inside it"),
    errno.EAGAIN: ("is being moved about by another program", "try again"),
    errno.ENXIO: ("is no regular file", "name a regular file"),
    errno.EMFILE: ("cannot be opened: too many files are open", "try again in a moment"),
}


def refused(error: OSError, path: str) -> Refused:
    """Converts an OSError about a path."""
    number = error.errno or 0
    what, hint = _WORDS.get(number, (f"gives an error: {os.strerror(number)}", ""))
    return Refused(f"{path} {what}", hint=hint)
