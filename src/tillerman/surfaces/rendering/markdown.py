"""Renders Markdown as terminal text without boxes or margins, and without losing characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

from markdown_it.token import Token
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from tillerman.core.terminal_sanitizer import reveal
from tillerman.surfaces.rendering.markdown_parser import parser
from tillerman.surfaces.rendering.markdown_text import (
    highlighted,
    inline_text,
    missing_letters,
    without_entities,
)

_HEADINGS = {"h1": "bold underline"}
_NARROW = 2  # columns: maximum width of one character


class Markdown:
    """Lays out Markdown for any width; if parsing would lose characters, shows the source text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _parsed(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self._tokens is None:
            yield Text(self._text, overflow="fold")
            return
        for line in _Layout(console, self._tokens, options.max_width).lines():
            yield from line.render(console)
            yield Segment.line()


def _parsed(text: str) -> list[Token] | None:
    """Parses the text. None if characters would be lost: surplus table cells, too deep nesting."""
    try:
        tokens = parser().parse(text)
        plain = without_entities(text)
        checked = parser().parse(plain) if plain != text else tokens
    except RecursionError:
        return None
    return None if missing_letters(plain, checked) else tokens


@dataclass
class _Container:
    """A block quote, a list or a list item."""

    closed_by: str
    first: str = ""  # prefix of its first line
    rest: str = ""  # prefix of its other lines, of the same width
    style: str = ""
    tight: bool = False  # a list without blank lines between items
    begun: bool = False  # a line of it has been drawn


class _Layout:
    """Lays out the flat token list in one pass, with a stack of open containers."""

    def __init__(self, console: Console, tokens: Sequence[Token], width: int) -> None:
        self._console = console
        self._tokens = tokens
        self._width = width
        self._open: list[_Container] = []

    def lines(self) -> Iterator[Text]:
        begun = False
        for at, token in enumerate(self._tokens):
            if self._open and token.type == self._open[-1].closed_by:
                if self._open[-1].first and not self._open[-1].begun:
                    yield from self._placed(at)  # an empty item
                self._open.pop()
            elif container := self._container(at):
                self._open.append(container)
            elif self._is_leaf(at):
                if begun and not self._is_close():
                    yield self._gap()
                begun = True
                yield from self._placed(at)

    # -- containers --------------------------------------------------------------------------------

    def _container(self, at: int) -> _Container | None:
        token = self._tokens[at]
        closed_by = token.type.replace("_open", "_close")
        match token.type:
            case "blockquote_open":
                return _Container(closed_by, "▌ ", "▌ ", "dim")
            case "bullet_list_open" | "ordered_list_open":
                return _Container(closed_by, tight=self._is_tight(at))
            case "list_item_open":  # numbered as in the source; no renumbering
                mark = f" {token.info}{token.markup} " if token.info else " • "
                return _Container(closed_by, mark, " " * cell_len(mark))
            case _:
                return None

    def _is_tight(self, at: int) -> bool:
        level = self._tokens[at].level
        inner = takewhile(lambda token: token.level > level, self._tokens[at + 1 :])
        own = (one for one in inner if one.type == "paragraph_open" and one.level == level + 2)
        return all(paragraph.hidden for paragraph in own)

    def _is_close(self) -> bool:
        """True if the next block follows without a blank line."""
        lists = [one for one in self._open if "list_close" in one.closed_by]
        return bool(lists) and lists[-1].tight and lists[0].begun

    # -- leaves ------------------------------------------------------------------------------------

    def _is_leaf(self, at: int) -> bool:
        match self._tokens[at].type:
            case "inline":
                return self._tokens[at - 1].type in ("paragraph_open", "heading_open")
            case kind:
                return kind in ("fence", "code_block", "hr", "table_open")

    def _placed(self, at: int) -> Iterator[Text]:
        """Draws a leaf after its containers' prefixes; too wide prefixes go on lines above it."""
        first, rest = self._left()
        if first.cell_len > self._width // 2:
            yield from self._wrapped(first, self._width)
            first = rest = Text()
        for one in self._open:
            one.begun = True
        for line in self._leaf(at, max(_NARROW, self._width - first.cell_len)) or [Text()]:
            yield first.copy().append_text(line)
            first = rest

    def _left(self) -> tuple[Text, Text]:
        first, rest = Text(), Text()
        for one in self._open:
            first.append(one.rest if one.begun else one.first, one.style)
            rest.append(one.rest, one.style)
        return first, rest

    def _gap(self) -> Text:
        """The line between two blocks, with the bars of open block quotes."""
        gap = Text()
        for one in self._open:
            gap.append(one.rest if one.begun else "", one.style)
        gap.rstrip()
        return gap if gap.cell_len <= self._width // 2 else Text()

    def _leaf(self, at: int, room: int) -> list[Text]:
        token = self._tokens[at]
        match token.type:
            case "inline":
                text = inline_text(token.children or ())
                before = self._tokens[at - 1]
                if before.type == "heading_open":
                    text.style = _HEADINGS.get(before.tag, "bold")
                return self._wrapped(text, room)
            case "fence" | "code_block":
                return self._code(token, room)
            case "hr":
                return [Text("─" * room, style="dim")]
            case "table_open":
                from tillerman.surfaces.rendering.markdown_table import Table

                return Table(self._console, self._tokens[at:]).lines(room)
            case _:
                return []

    def _code(self, token: Token, room: int) -> list[Text]:
        info = reveal(token.info.strip())
        code = highlighted(reveal(token.content.rstrip("\n")), info)
        left = "  " if room >= 2 * _NARROW else ""
        room -= len(left)
        lines = self._wrapped(Text(info, style="dim"), room) if info else []
        return [Text(left).append_text(line) for line in [*lines, *self._wrapped(code, room)]]

    def _wrapped(self, text: Text, width: int) -> list[Text]:
        return list(text.wrap(self._console, width, overflow="fold", tab_size=4, no_wrap=False))
