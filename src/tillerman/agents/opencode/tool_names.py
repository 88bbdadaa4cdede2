"""What OpenCode calls the tools of our vocabulary."""

from tillerman.hooks.dialects.tool_names import OPENCODE as NAMES

__all__ = ["NAMES"]
