"""Names of files that start programs or steer agents, wherever in a workspace they lie."""

from __future__ import annotations

from bridle.core.protected_names import (
    INSTRUCTIONS,
    PROTECTED,
    PROTECTED_PREFIX,
    is_protected,
    plain,
)

__all__ = [
    "INSTRUCTIONS",
    "PROTECTED",
    "PROTECTED_PREFIX",
    "is_protected",
    "may_be_protected",
    "plain",
]


def is_significant(name: str) -> bool:
    """Whether a path can be protected for the sake of this part, plain."""
    return name in PROTECTED or name in _PROTECTED_IN or name.startswith(PROTECTED_PREFIX)


def may_be_protected(pattern: str) -> bool:
    """Whether an unquoted glob of the shell, `*` and `?`, can come to such a name."""
    if not pattern.startswith("."):
        return False  # a `*` at the beginning stands for no hidden file
    from fnmatch import fnmatchcase

    return any(fnmatchcase(name, pattern) for name in (*PROTECTED, PROTECTED_PREFIX, ".github"))
