"""Renders Rich renderables to Textual strips."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, RenderableType
from rich.segment import Segment
from textual.strip import Strip

from tillerman.core.terminal_sanitizer import reveal


class RichLineRenderer:
    def __init__(self) -> None:
        self._console = Console(
            color_system="truecolor",
            force_terminal=True,
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def lines(self, drawn: RenderableType, width: int) -> list[Strip]:
        options = self._console.options.update(width=width, height=None)
        lines = self._console.render_lines(drawn, options, pad=False)
        return [Strip(_harmless(line)) for line in lines]


def _harmless(segments: Iterable[Segment]) -> list[Segment]:
    """Sanitizes again: drops control segments and reveals control characters."""
    return [
        Segment(reveal(text).replace("\n", " ").replace("\t", "    "), style)
        for text, style, control in segments
        if control is None
    ]
