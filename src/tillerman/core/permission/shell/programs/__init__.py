"""What external programs do with their words: a table of programs, and what applies it."""

from tillerman.core.permission.shell.programs.describe import describe
from tillerman.core.permission.shell.programs.invocation import (
    Invocation,
    NestedCommand,
    StdinSource,
)

__all__ = ["Invocation", "NestedCommand", "StdinSource", "describe"]
