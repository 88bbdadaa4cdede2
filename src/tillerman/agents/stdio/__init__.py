"""Drives CLIs that exchange JSON lines over stdio, given a Wire: processes, lines, turns, hooks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tillerman.agents.stdio.agent import StdioAgent

__all__ = ["StdioAgent"]


def __getattr__(name: str) -> Any:
    """Imports the agent on first access: other modules of the package do not need it."""
    if name in __all__:
        from tillerman.agents.stdio import agent

        return getattr(agent, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
