"""What Copilot calls the tools of our vocabulary, and what it adds to what they print."""

from __future__ import annotations

import re

from tillerman.hooks.dialects.tool_names import COPILOT as NAMES

__all__ = ["NAMES", "without_exit"]

_EXITED = re.compile(r"<shellId: \S+ completed with exit code -?\d+>\s*$")


def without_exit(output: str) -> str:
    """The exit code of a command, at the end of its output, is told elsewhere too."""
    return _EXITED.sub("", output)
