"""The files in a home, so that two runs of a CLI can be compared by what they left there."""

from __future__ import annotations

import hashlib
from fnmatch import fnmatch
from pathlib import Path


def home_tree(home: Path, restless: tuple[str, ...] = ()) -> dict[str, str]:
    """A hash of every file, by its path, but for those that every run writes anew."""
    tree = {}
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        if any(fnmatch(name, pattern) for pattern in restless):
            continue
        if path.is_symlink():
            tree[name] = f"-> {path.readlink()}"
        elif path.is_file():
            tree[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return tree
