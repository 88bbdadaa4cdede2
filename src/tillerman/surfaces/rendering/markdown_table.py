"""Renders Markdown tables: column widths fit the terminal, cells wrap instead of being cut."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token
from rich.console import Console
from rich.text import Text

from tillerman.surfaces.rendering.markdown_text import inline_text

GAP = 2  # cells between columns
NARROWEST = 6  # minimum column width in cells; if it does not fit, cells are stacked


class Table:
    def __init__(self, console: Console, tokens: Sequence[Token]) -> None:
        """`tokens` start at the table's opening token."""
        self._console = console
        self._rows: list[list[Text]] = []
        self._right: list[bool] = []  # right-aligned columns
        for at, token in enumerate(tokens):
            if token.type == "table_close":
                break
            if token.type == "tr_open":
                self._rows.append([])
            elif token.type in ("th_open", "td_open"):
                cell = inline_text(tokens[at + 1].children or ())
                cell.expand_tabs(4)  # before measuring
                cell.style = "bold" if token.type == "th_open" else ""
                self._rows[-1].append(cell)
                if token.type == "th_open":
                    self._right.append("right" in str(token.attrs.get("style", "")))

    def lines(self, room: int) -> list[Text]:
        count = len(self._rows[0])
        widths = self._widths(room - GAP * (count - 1))
        if widths is None:
            return [line for row in self._rows for line in self._below(row, room)]
        lines = [line for row in self._rows for line in self._beside(row, widths)]
        head = len(self._beside(self._rows[0], widths))
        rule = Text((" " * GAP).join("─" * width for width in widths), style="dim")
        return [*lines[:head], rule, *lines[head:]]

    def _widths(self, room: int) -> list[int] | None:
        """Cell widths, shrinking the widest columns to fit; None if the table does not fit."""
        wanted = [
            max(1, *(row[at].cell_len for row in self._rows)) for at in range(len(self._right))
        ]
        if sum(wanted) <= room:
            return wanted
        most = max(wanted)
        while most > NARROWEST and sum(min(width, most) for width in wanted) > room:
            most -= 1
        widths = [min(width, most) for width in wanted]
        return widths if sum(widths) <= room else None

    def _beside(self, row: Sequence[Text], widths: Sequence[int]) -> list[Text]:
        cells = [self._wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        lines = []
        for number in range(max(map(len, cells))):
            line = Text()
            for cell, width, right in zip(cells, widths, self._right, strict=True):
                part = cell[number] if number < len(cell) else Text()
                blank = " " * (width - part.cell_len)
                line.append(" " * GAP if line else "")
                line.append_text(Text(blank) + part if right else part + Text(blank))
            lines.append(line)
        return lines

    def _below(self, row: Sequence[Text], room: int) -> list[Text]:
        lines = [line for cell in row for line in self._wrapped(cell, room)]
        return [*lines, Text("─" * room, style="dim")]

    def _wrapped(self, cell: Text, width: int) -> list[Text]:
        return list(cell.wrap(self._console, width, overflow="fold", tab_size=4, no_wrap=False))
