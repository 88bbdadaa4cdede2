"""A session as text that only grows: the live screen's pieces without the part that moves."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from rich.console import Console, RenderableType

from bridle.core.events import Entry
from bridle.surfaces.cli.drawing import Drawing
from bridle.surfaces.cli.outcome import Outcomes

PIPE_WIDTH = 100


class ScrollView:
    def __init__(self, *, color: bool, prompts: bool) -> None:
        self._drawing = Drawing(prompts=prompts)
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
        await self._print(self._drawing.take())

    async def tell(self, text: str) -> None:
        await self._print([text])

    async def close(self) -> None:
        self._drawing.end()
        await self._print(self._drawing.take())

    async def _print(self, pieces: Sequence[RenderableType]) -> None:
        if pieces:
            await asyncio.to_thread(self._console.print, *pieces, sep="\n")
