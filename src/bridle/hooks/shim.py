"""The program that a hook runs, in the fastest form this machine can have, and its command line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Literal

import msgspec

SOURCE = Path(__file__).with_name("shim.c")
SCRIPT = Path(__file__).with_name("client.py")


class Shim(msgspec.Struct, frozen=True):
    kind: Literal["compiled", "python"]
    words: tuple[str, ...]

    def command(
        self, folder: Path, agent: str, event: str, deadline: float, *, observing: bool
    ) -> str:
        from shlex import join

        event = f"-{event}" if observing else event
        line = join([*self.words, str(folder), agent, event, f"{max(deadline, 0.1):.1f}"])
        return f"{line} || exit {0 if observing else 2}"


def ready_shim(cache: Path, *, compiled: bool = True) -> Shim:
    return python_shim(cache)


def python_shim(cache: Path) -> Shim:
    """Without the user's site-packages, which take longer to find than all that it does."""
    return Shim("python", (os.path.realpath(sys.executable), "-I", "-S", str(SCRIPT)))
