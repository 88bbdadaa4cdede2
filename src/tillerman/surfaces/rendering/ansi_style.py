"""ANSI colors for lists and tables that are written as plain text."""

from __future__ import annotations


class Style:
    """ANSI colors for lists; the live view uses Rich."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, code: str, text: str) -> str:
        return f"\x1b[{_CODES[code]}m{text}\x1b[0m" if self._on and text else text


_CODES = {"dim": "2", "bold": "1", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
