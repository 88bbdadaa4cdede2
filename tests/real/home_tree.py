"""The files in a home, to compare two runs of a CLI by the files they left."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

_SHOWN = 8192  # bytes; a difference in more is shown by a hash


def home_tree(home: Path, volatile_files: tuple[str, ...] = ()) -> dict[str, str]:
    """The content of every file by its path, except those that every run rewrites."""
    tree = {}
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if any(fnmatch(name, pattern) for pattern in volatile_files):
            continue
        if path.is_symlink():
            tree[name] = f"-> {path.readlink()}"
        elif path.is_file():
            tree[name] = _content(path.read_bytes())
    return tree


def _content(data: bytes) -> str:
    if len(data) <= _SHOWN:
        with suppress(UnicodeDecodeError):
            return data.decode()
    return hashlib.sha256(data).hexdigest()
