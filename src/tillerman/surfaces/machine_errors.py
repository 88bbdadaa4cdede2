"""Errors for programs: the error object, and messages for errors that the machine causes."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
INTERNAL = "internal_error"  # a bug in tillerman
SYSTEM = "system_error"  # the disk, or the rights of a file
_PATHS = (
    *NO_ROOM, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR,
    errno.ENAMETOOLONG, errno.ELOOP, errno.EMLINK,
)  # fmt: skip
_FILES = (errno.EMFILE, errno.ENFILE)
_NO_MEMORY = re.compile("failed to map segment|cannot allocate memory", re.IGNORECASE)


def error_object(kind: str, message: str, hint: str, exit_code: int) -> dict[str, Any]:
    """What every interface for programs prints of an error."""
    told = {"kind": kind, "message": _utf8(message), "hint": _utf8(hint)}
    return {"error": told | {"exit_code": exit_code}}


def machine_error(error: BaseException) -> tuple[str, str] | None:
    """Message and hint; None for any other error."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    match error:
        case MemoryError():
            return _memory()
        case OSError(errno=errno.ENOMEM) | ImportError() if _lacks_memory(error):
            return _memory()
        case OSError(errno=errno.EAGAIN) | RuntimeError() if _lacks_processes(error):
            return (
                "the system starts no further process or thread",
                "raise the limits of processes and memory (`ulimit -u`, `ulimit -v`)",
            )
        case OSError(errno=number) if number in _FILES:
            return "too many open files", "raise the limit (`ulimit -n`), or end other programs"
        case OSError(errno=number, filename=str(name)) if number in _PATHS:
            return f"{name}: {error.strerror}", _own(Path(name))
    return None


def _memory() -> tuple[str, str]:
    return "there is not enough memory", "end other programs, or raise the limit (`ulimit -v`)"


def _lacks_memory(error: BaseException) -> bool:
    return isinstance(error, OSError) or _NO_MEMORY.search(str(error)) is not None


def _lacks_processes(error: BaseException) -> bool:
    return isinstance(error, OSError) or "can't start new thread" in str(error)


def _own(path: Path) -> str:
    from tillerman.paths import find_paths

    own = any(path.is_relative_to(folder) or folder.is_relative_to(path) for folder in find_paths())
    return "set TILLERMAN_HOME to a writable folder" if own else ""


def _utf8(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
