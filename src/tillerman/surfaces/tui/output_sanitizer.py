"""The last look at each line before the terminal gets it: nothing on the screen is obeyed."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tillerman.core.terminal_sanitizer import reveal


class OutputSanitizer(LineFilter):
    """Whoever drew it, whatever it was given: a line is text, and its links lead nowhere."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [_checked(segment) for segment in segments]


def _checked(segment: Segment) -> Segment:
    text, style, control = segment
    if control is None and text.isascii() and text.isprintable() and not (style and style.link):
        return segment
    shown = reveal(text).replace("\n", "␊").replace("\t", " ")
    if style and style.link:
        style = style.update_link(None)
    return Segment(shown, style)
