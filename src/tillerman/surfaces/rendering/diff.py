"""Renders a diff with syntax highlighting, side by side on wide terminals, otherwise unified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from rich.console import Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from tillerman.core.events import Diff
from tillerman.surfaces.rendering.diff_lines import DiffLine, numbered_lines

SIDE_BY_SIDE = 110  # minimum columns for the side-by-side layout
SPARED = 4  # if at most this many lines would be hidden, all are shown
LONGEST = 500  # maximum characters shown per line
_ADDED = Style(bgcolor="#12361f")
_REMOVED = Style(bgcolor="#43191c")
_ADDED_LIGHT = Style(bgcolor="#d8f3dc")
_REMOVED_LIGHT = Style(bgcolor="#fbdcdc")


def difference(
    change: Diff, width: int, limit: int, *, dark: bool | None = True, whole: bool = False
) -> RenderableType:
    """Renders a diff. `dark` is the terminal background; None if unknown: no background is painted.

    `whole` wraps long lines instead of truncating them, for a user who has to approve the change.
    """
    lines = list(numbered_lines(change, None if whole else LONGEST))
    left_out = len(lines) - limit
    if left_out <= SPARED:
        left_out = 0
    else:
        lines = lines[:limit]
    paint = _Paint(_lexer(change.path), dark)
    both = {"+", "-"} <= {line.kind for line in lines}
    beside = both and width >= SIDE_BY_SIDE and not whole
    shown = _sides(lines, paint) if beside else _below(lines, paint, wrap=whole)
    if not left_out:
        return shown
    return Group(shown, Text(f"… {left_out} more lines", style="dim"))


class _Paint:
    """Highlights code and picks the background color by line kind."""

    def __init__(self, lexer: str | None, dark: bool | None) -> None:
        self._lexer = lexer if dark is not None else None
        self._dark = bool(dark)
        grounds = (_ADDED, _REMOVED) if dark else (_ADDED_LIGHT, _REMOVED_LIGHT)
        if dark is None:
            grounds = (Style(color="green"), Style(color="red"))
        self.grounds = {"+": grounds[0], "-": grounds[1]}

    def code(self, text: str) -> Text:
        if self._lexer is None or not text.strip():
            return Text(text)
        return _highlighted(text, self._lexer, self._dark).copy()


@lru_cache(maxsize=4_096)
def _highlighted(text: str, lexer: str, dark: bool) -> Text:
    """Highlights each line alone: a line inside a long string may be colored as code."""
    from rich.syntax import Syntax

    theme = "ansi_dark" if dark else "ansi_light"
    found = Syntax("", lexer, theme=theme, background_color="default").highlight(text)
    shown = Text(text)
    for start, end, style in found.spans:
        if isinstance(style, Style) and style.color:
            shown.stylize(Style(color=style.color, italic=style.italic), start, end)
    return shown


@lru_cache(maxsize=256)
def _lexer(path: str) -> str | None:
    from rich.syntax import Syntax

    found = Syntax.guess_lexer(path)
    return None if found == "default" else found


def _below(lines: Sequence[DiffLine], paint: _Paint, *, wrap: bool) -> RenderableType:
    table = Table.grid(expand=True, padding=0)
    table.add_column(justify="right", no_wrap=True, style="dim")
    table.add_column(ratio=1, no_wrap=not wrap, overflow="fold" if wrap else "ellipsis")
    for line in lines:
        number = "" if line.kind == "@" else str(line.new if line.kind != "-" else line.old)
        table.add_row(f"{number} ", _marked(line, paint), style=paint.grounds.get(line.kind))
    return table


def _marked(line: DiffLine, paint: _Paint) -> Text:
    if line.kind == "@":
        return Text(line.text, style="dim")
    marks = {"+": ("+ ", "green"), "-": ("- ", "red"), " ": ("  ", "")}
    text, style = marks[line.kind]
    return Text().append(text, style=style).append_text(paint.code(line.text))


def _sides(lines: Sequence[DiffLine], paint: _Paint) -> RenderableType:
    table = Table.grid(expand=True, padding=0)
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True, style="dim")
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for left, right in _pairs(lines):
        table.add_row(*_side(left, paint, "old"), *_side(right, paint, "new"))
    return table


def _side(line: DiffLine | None, paint: _Paint, side: str) -> tuple[Text, Text]:
    if line is None:
        return Text(" "), Text("")
    if line.kind == "@":
        return Text(" "), Text(line.text, style="dim")
    ground = paint.grounds.get(line.kind, Style())
    code = _marked(line, paint)
    code.pad_right(400)  # extends the background to the edge; the rest is cropped
    code.overflow = "crop"
    code.stylize_before(ground)
    return Text(f"{getattr(line, side)} ", style=ground), code


def _pairs(lines: Sequence[DiffLine]) -> Iterator[tuple[DiffLine | None, DiffLine | None]]:
    """Pairs removed lines with the added lines that replace them."""
    removed: list[DiffLine] = []
    added: list[DiffLine] = []

    def beside() -> Iterator[tuple[DiffLine | None, DiffLine | None]]:
        for at in range(max(len(removed), len(added))):
            yield (
                removed[at] if at < len(removed) else None,
                added[at] if at < len(added) else None,
            )
        removed.clear()
        added.clear()

    for line in lines:
        if line.kind == "-":
            if added:
                yield from beside()
            removed.append(line)
        elif line.kind == "+":
            added.append(line)
        else:
            yield from beside()
            yield line, line
    yield from beside()
