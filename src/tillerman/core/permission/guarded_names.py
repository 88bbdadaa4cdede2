"""Protected file names, with a check whether a shell glob can match one."""

from __future__ import annotations

from tillerman.core.permission.protected_names import (
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
    """Whether an unquoted shell glob, `*` and `?`, can match such a name."""
    if not pattern.startswith("."):
        return False  # a leading `*` matches no hidden file
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, pattern) for name in (*PROTECTED, PROTECTED_PREFIX, ".github"))
