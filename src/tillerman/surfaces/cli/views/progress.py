"""Queries many agents, showing on a terminal which have not answered yet."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from tillerman.core.errors import TillermanError
from tillerman.surfaces import query_agents
from tillerman.surfaces.cli.views.output import is_terminal, write

T = TypeVar("T")


async def ask_all(
    names: Sequence[str], ask: Callable[[str], Awaitable[T]]
) -> dict[str, T | TillermanError]:
    """Results in the order of `names`; a failed query yields its error instead."""
    line = _Line(names)
    line.show()
    try:
        return await query_agents.ask_all(names, ask, line.without)
    finally:
        line.clear()


class _Line:
    def __init__(self, names: Sequence[str]) -> None:
        self._left = list(names)
        self._on = is_terminal(sys.stderr)

    def without(self, name: str) -> None:
        self._left.remove(name)
        self.show()

    def show(self) -> None:
        if self._left and self._on:
            room = shutil.get_terminal_size().columns - 3
            self._put(f"waiting for {', '.join(self._left)}"[:room] + " …")

    def clear(self) -> None:
        if self._on:
            self._put("")

    def _put(self, text: str) -> None:
        with suppress(OSError):
            write(sys.stderr, f"\r\x1b[K{text}")
