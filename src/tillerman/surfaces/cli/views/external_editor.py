"""Opens the user's editor ($VISUAL, $EDITOR) on a short text."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path


def edit(text: str) -> str:
    """Returns the saved text; unchanged if the editor failed."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="tillerman-") as folder:
        path = Path(folder, "input.json")
        path.write_text(text)
        try:
            done = subprocess.run([*command, str(path)], check=False)
            return path.read_text() if done.returncode == 0 else text
        except (OSError, UnicodeDecodeError):
            return text
