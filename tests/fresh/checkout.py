"""A copy of this checkout: all files that git tracks, uncommitted changes included."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests import CHECKOUT


def copy_checkout(folder: Path) -> None:
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        source = CHECKOUT / name
        if name and source.is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / name)
