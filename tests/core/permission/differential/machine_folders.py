"""Hides folders of the machine that the shells do not see from the process that reads lines.

The policy lists folders: the machine's own are large, and differ from one moment to the next.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from tests import CHECKOUT
from tests.core.permission.differential import namespace, tree

_SEEN = frozenset({"usr", "etc", "dev", "proc", tree.BASE.strip("/")})


def hide(needed: Iterable[Path]) -> None:
    """In a mount namespace of this process. What it imports or writes stays where it is."""
    paths = [*needed, CHECKOUT, sys.prefix, sys.base_prefix, *sys.path]
    kept = {Path(path).resolve().parts[1:2] for path in paths}
    for entry in os.scandir("/"):
        if entry.is_dir(follow_symlinks=False) and not (
            entry.name in _SEEN or (entry.name,) in kept
        ):
            namespace.mount_tree(entry.path)
