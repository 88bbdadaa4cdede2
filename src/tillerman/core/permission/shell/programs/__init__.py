"""Effects of external programs by their arguments: a table of programs, and its evaluation."""

from tillerman.core.permission.shell.programs.describe import describe
from tillerman.core.permission.shell.programs.invocation import (
    Invocation,
    NestedCommand,
    StdinSource,
)

__all__ = ["Invocation", "NestedCommand", "StdinSource", "describe"]
