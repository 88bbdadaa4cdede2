"""Token files: one secret per file, created when first needed, readable by the user only."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tillerman.core.errors import UsageError
from tillerman.paths import private_folder


def token(path: Path) -> str:
    """Reads the token from the file, or creates it. The file is readable by the user only."""
    private_folder(path.parent)
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        pass
    else:
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    found = path.stat()
    said = path.read_text().strip()
    if found.st_uid != os.getuid() or found.st_mode & 0o077 or len(said) < 64:
        raise UsageError(
            f"{path} is not a private token file", hint="delete it, and a new one is created"
        )
    return said
