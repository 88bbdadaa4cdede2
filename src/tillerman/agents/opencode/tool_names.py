"""Maps OpenCode's tool names to the common vocabulary."""

from tillerman.hooks.dialects.tool_names import OPENCODE as NAMES

__all__ = ["NAMES"]
