"""Where a program is. `shutil` knows too, but takes longer to load than an agent to be started."""

from __future__ import annotations

import os
from pathlib import Path


def find_program(name: str, path: str | None) -> str | None:
    """The first on `path` that may be run; a name with a slash is looked for where it says."""
    folders = [""] if "/" in name else (os.defpath if path is None else path).split(os.pathsep)
    for folder in folders:
        file = os.path.join(folder, name)  # noqa: PTH118  `.` must not get lost
        if Path(file).is_file() and os.access(file, os.X_OK):
            return file
    return None
