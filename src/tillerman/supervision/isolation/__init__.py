"""Isolation levels (sandboxing) of commands: basic, medium or high.

`confine` is the harness side: it turns a command into one that runs at a level, and refuses a level
that the probe has not verified here. `enforce` is the last step of the command's own process before
exec. `after` removes the temporary files of a command.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the keeper's child imports this package to reach `enforce`
if TYPE_CHECKING:
    from typing import Any

    from tillerman.supervision.isolation.confinement import (
        ConfinedCommand,
        IsolationLevel,
        after,
        confine,
        refusal,
    )
    from tillerman.supervision.isolation.enforcement import enforce

__all__ = [
    "LEVELS",
    "ConfinedCommand",
    "IsolationLevel",
    "after",
    "confine",
    "enforce",
    "refusal",
]

LEVELS: tuple[IsolationLevel, ...] = ("basic", "medium", "high")

_HOMES = {
    "ConfinedCommand": ("confinement", "ConfinedCommand"),
    "IsolationLevel": ("confinement", "IsolationLevel"),
    "after": ("confinement", "after"),
    "confine": ("confinement", "confine"),
    "enforce": ("enforcement", "enforce"),
    "refusal": ("confinement", "refusal"),
}


def __getattr__(name: str) -> Any:
    """Imports a submodule on first use: the child must not load the harness side."""
    import sys

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, word = _HOMES[name]
    __import__(f"{__name__}.{module}")
    return getattr(sys.modules[f"{__name__}.{module}"], word)
