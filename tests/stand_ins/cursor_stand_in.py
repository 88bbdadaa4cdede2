"""Puts a stand-in where a program is looked for, as an executable of its own."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent


def install_cursor(folder: Path, home: Path, *, signed_in: bool = True) -> Path:
    """`cursor-agent` in a folder for PATH, and somebody signed in at home."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "cursor-agent"
    program.write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -S -B "{HERE / "cursor_agent.py"}" "$@"\n'
    )
    program.chmod(0o755)
    if signed_in:
        login = home / ".config" / "cursor" / "auth.json"
        login.parent.mkdir(parents=True, exist_ok=True)
        login.write_text("{}")
    return program
