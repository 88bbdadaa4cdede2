"""Token files: one secret per file, created when first needed, readable by the user only."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from tillerman.core.errors import UsageError
from tillerman.paths import private_folder, write_whole


def token(path: Path) -> str:
    """Reads the token from the file, or creates it. The file is readable by the user only."""
    private_folder(path.parent)
    if not path.exists():
        _create(path)
    found = path.stat()
    said = path.read_text().strip()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or len(said) < 64:
        raise UsageError(
            f"{path} is not a private token file", hint="delete it, and a new one is created"
        )
    return said


def _create(path: Path) -> None:
    """Whole or not at all: other processes may create it too, and a disk may be full."""
    draft = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        write_whole(draft, f"{secrets.token_hex(32)}\n".encode())
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
