"""Programs of Debian's packages that tests need, installed where they are missing."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ordinary_user import as_root


def ensure(program: str, package: str) -> bool:
    """False where it is missing, and cannot be had."""
    if shutil.which(program) is None and shutil.which("apt-get") and os.geteuid() == 0:
        apt("install", "--yes", "--no-install-recommends", package)
    return shutil.which(program) is not None


def apt(*words: str, cwd: Path | None = None) -> None:
    quiet = ("apt-get", "-qq", "-o", "DPkg::Lock::Timeout=60")
    try:
        as_root(*quiet, *words, cwd=cwd)
    except AssertionError:  # a new system knows no packages yet
        as_root(*quiet, "update")
        as_root(*quiet, *words, cwd=cwd)
