"""Names of files and folders: as text, and those that tools rebuild by themselves."""

from __future__ import annotations

import os

# there is no .gitignore to say so
SKIPPED = frozenset({
    ".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", ".mypy_cache",
    ".pytest_cache", ".ruff_cache", ".cache",
})  # fmt: skip


def shown(path: str) -> str:
    """A name as text: bytes that are no UTF-8 cannot be stored."""
    return path if path.isascii() else os.fsencode(path).decode("utf-8", "replace")
