"""Reads the plan that Gemini CLI writes into a file before it asks for approval of its path.

The path is in the title of the call: the folder of the session's plans joined with the name that
the model chose. Gemini resolves the file in this order: the name alone if it is the path of a file
in that folder, otherwise the name within the folder. Only files in that folder are read.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_LONGEST = 256 * 1024  # bytes
_CUT = "\n\n(The plan is truncated: {} of {} bytes are shown. The complete plan is in {}.)"


def presented(home: Path, native_id: str, path: str) -> str:
    """The plan of a session; "" if there is no such file."""
    for folder in _folders(home, native_id):
        name = path.removeprefix(f"{folder}/")
        if name == path:
            continue
        for file in (Path("/", name), folder / name):
            if _is_within(file, folder):
                return _read(file)
    return ""


def _folders(home: Path, native_id: str) -> Iterator[Path]:
    """The plan folders; older versions have one for all sessions of a project."""
    if native_id and "/" not in native_id and native_id not in (".", ".."):
        yield from home.glob(f"tmp/*/{_literal(native_id)}/plans")
    yield from home.glob("tmp/*/plans")


def _literal(name: str) -> str:
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in name)


def _is_within(file: Path, folder: Path) -> bool:
    try:
        return file.resolve(strict=True).is_relative_to(folder.resolve(strict=True))
    except (OSError, RuntimeError, ValueError):
        return False


def _read(file: Path) -> str:
    try:
        fd = os.open(file.resolve(), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(fd, "rb") as opened:
        standing = os.fstat(fd)
        if not stat.S_ISREG(standing.st_mode):
            return ""
        plan = opened.read(_LONGEST).decode(errors="replace")
    if standing.st_size > _LONGEST:
        plan += _CUT.format(_LONGEST, standing.st_size, file)
    return plan
