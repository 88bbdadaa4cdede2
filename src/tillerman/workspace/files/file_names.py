"""File and folder names: as text, and those that tools generate."""

from __future__ import annotations

import os

# used where there is no .gitignore
SKIPPED = frozenset({
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".cache",
})  # fmt: skip


def shown(path: str) -> str:
    """Returns a name as text: bytes that are not UTF-8 cannot be stored."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "replace")
