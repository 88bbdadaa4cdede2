"""Names of files that start programs or steer agents, wherever in a workspace they lie."""

from __future__ import annotations

from tillerman.core.protected_names import (
    INSTRUCTIONS,
    PROTECTED,
    PROTECTED_PREFIX,
    is_protected,
    is_significant,
    plain,
)

__all__ = [
    "INSTRUCTIONS",
    "PROTECTED",
    "PROTECTED_PREFIX",
    "is_protected",
    "is_significant",
    "may_be_protected",
    "plain",
]


def may_be_protected(pattern: str) -> bool:
    """Whether an unquoted glob of the shell, `*` and `?`, can come to such a name."""
    if not pattern.startswith("."):
        return False  # a `*` at the beginning stands for no hidden file
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, pattern) for name in (*PROTECTED, PROTECTED_PREFIX, ".github"))
