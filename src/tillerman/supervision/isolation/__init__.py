"""How far a command is kept from the rest of the machine: basic, medium or high.

`confine` is the harness's side: it turns a command into one that runs under a level, and refuses
a level that a canary has not proved here. `enforce` is the last thing that the command's own
process does before exec. `after` clears away what a command needed.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the keeper's child comes through here on its way to `enforce`
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
    """Loads a side when it is asked for: the child's must cost nothing of the harness's."""
    import sys

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, word = _HOMES[name]
    __import__(f"{__name__}.{module}")
    return getattr(sys.modules[f"{__name__}.{module}"], word)
