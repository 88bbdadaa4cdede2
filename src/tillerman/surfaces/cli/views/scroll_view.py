"""Append-only session view: the finished blocks of the live screen without the changing part."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from rich.console import Console, RenderableType

from tillerman.core.events import Entry
from tillerman.surfaces.cli.views.live_screen import LiveScreen
from tillerman.surfaces.cli.views.output import write
from tillerman.surfaces.rendering import transcript_blocks
from tillerman.surfaces.rendering.turn_outcome import Outcomes

PIPE_WIDTH = 100


class ScrollView:
    def __init__(self, *, color: bool, resumable: bool) -> None:
        self._drawing = LiveScreen(prompts=True, resumable=resumable)
        self._asked: set[str] = set()
        self._console = Console(
            highlight=False,
            markup=False,
            emoji=False,
            no_color=not color,
            force_terminal=color or None,
            width=None if sys.stdout.isatty() else PIPE_WIDTH,
        )

    @property
    def outcomes(self) -> Outcomes:
        return self._drawing.outcomes

    async def show(self, page: Sequence[Entry]) -> None:
        for entry in page:
            self._drawing.add(entry)
        await self._print([*self._drawing.take(), *self._questions()])

    async def report(self, text: str) -> None:
        await self._print([text])

    async def close(self) -> None:
        self._drawing.end()
        await self._print(self._drawing.take())

    def _questions(self) -> list[RenderableType]:
        """Open requests that have not been printed yet."""
        new = {id: one for id, one in self._drawing.requests.items() if id not in self._asked}
        self._asked |= new.keys()
        return [transcript_blocks.asked(request) for request in new.values()]

    async def _print(self, shown: Sequence[RenderableType]) -> None:
        await asyncio.to_thread(self._print_now, shown)

    def _print_now(self, shown: Sequence[RenderableType]) -> None:
        with self._console.capture() as capture:
            for piece in shown:
                self._console.print(piece)
        # Rich pads lines with blanks.
        write(sys.stdout, "".join(f"{line.rstrip(' ')}\n" for line in capture.get().splitlines()))
