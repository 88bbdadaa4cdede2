"""Sanitizes each screen line before it is written: no control characters, no links."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from tillerman.core.terminal_sanitizer import reveal


class OutputSanitizer(LineFilter):
    """Line filter applied to the output of all widgets."""

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
