"""Finds a program on PATH. `shutil.which` would take longer to import than an agent to start."""

from __future__ import annotations

import os
from pathlib import Path


def find_program(name: str, path: str | None) -> str | None:
    """Returns the first executable on `path`; a name with a slash is used as a path."""
    folders = [""] if "/" in name else (os.defpath if path is None else path).split(os.pathsep)
    for folder in folders:
        file = os.path.join(folder, name)  # noqa: PTH118  `.` must not get lost
        if Path(file).is_file() and os.access(file, os.X_OK):
            return file
    return None
