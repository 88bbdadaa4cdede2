"""Drives any CLI that speaks JSON lines, given its Wire: processes, lines, conversations, hooks."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tillerman.agents.stdio.agent import StdioAgent

__all__ = ["StdioAgent"]


def __getattr__(name: str) -> Any:
    """Loads the agent when it is asked for: other modules of the package do without it."""
    if name in __all__:
        from tillerman.agents.stdio import agent

        return getattr(agent, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
