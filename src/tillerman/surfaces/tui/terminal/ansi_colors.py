"""Converts ANSI color sequences in program output to Rich styles."""

from __future__ import annotations

import re

from rich.ansi import AnsiDecoder
from rich.text import Text

from tillerman.core.terminal_sanitizer import reveal

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


def colored(text: str) -> Text:
    """Styled text; all other escape sequences are revealed as text."""
    if "\x1b[" not in text:
        return Text(reveal(text))
    shown = Text()
    decoder = AnsiDecoder()
    last = 0
    for found in _COLOR.finditer(text):
        shown.append(reveal(text[last : found.start()]), decoder.style)
        decoder.decode_line(found.group())
        last = found.end()
    return shown.append(reveal(text[last:]), decoder.style)
