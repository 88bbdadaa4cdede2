"""Copilot's tool names in the common vocabulary, and cleanup of its command output."""

from __future__ import annotations

import re

from tillerman.hooks.dialects.tool_names import COPILOT as NAMES

__all__ = ["NAMES", "without_exit"]

_EXITED = re.compile(r"<shellId: \S+ completed with exit code -?\d+>\s*$")


def without_exit(output: str) -> str:
    """Removes the exit code from the end of a command's output; it is reported separately too."""
    return _EXITED.sub("", output)
