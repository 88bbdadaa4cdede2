"""Highlights code with Pygments: five classes, the same that the style sheet colors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from tillerman.core.terminal_sanitizer import reveal
from tillerman.surfaces.page.html_text import escaped

if TYPE_CHECKING:
    from pygments.lexer import Lexer

LONGEST = 50_000  # characters; longer code is shown without colors

Line = list[tuple[str, str]]  # (class, text)

_CLASSES = (
    ("Token.Keyword", "k"),
    ("Token.Operator.Word", "k"),
    ("Token.Name.Tag", "k"),
    ("Token.Literal.String", "s"),
    ("Token.Name.Function", "f"),
    ("Token.Name.Class", "f"),
    ("Token.Name.Attribute", "f"),
    ("Token.Literal.Number", "m"),
    ("Token.Name.Constant", "m"),
    ("Token.Comment", "c"),
)


def code_html(code: str, language: str) -> str:
    lines = colored_lines(reveal(code), _lexer(language) if language else None)
    return "\n".join(map(line_html, lines))


def file_lines(lines: Sequence[str], path: str) -> list[Line]:
    """The lines of a file; a text of several lines has its color on each of them."""
    return colored_lines("\n".join(lines), _lexer_of(path.rpartition("/")[2])) if lines else []


def colored_lines(code: str, lexer: Lexer | None) -> list[Line]:
    plain: list[Line] = [[("", line)] for line in code.split("\n")]
    if lexer is None or len(code) > LONGEST:
        return plain
    lines: list[Line] = [[]]
    for kind, text in _tokens(lexer, code):
        first, *rest = text.split("\n")
        lines[-1].append((kind, first))
        lines += [[(kind, part)] for part in rest]
    whole = ["".join(text for _, text in line) for line in lines]
    return lines if whole == code.split("\n") else plain


def line_html(line: Line, marked: tuple[int, int] = (0, 0)) -> str:
    """One line; the characters from `marked[0]` to `marked[1]` are marked as changed."""
    start, end = marked
    before, inside, after = (
        _segments(line, *part) for part in ((0, start), (start, end), (end, None))
    )
    return f"{before}<mark>{inside}</mark>{after}" if start < end else f"{before}{after}"


def _segments(line: Line, start: int, end: int | None) -> str:
    parts: list[str] = []
    at = 0
    for kind, text in line:
        part = text[max(0, start - at) : None if end is None else max(0, end - at)]
        at += len(text)
        if part:
            parts.append(f'<i class="{kind}">{escaped(part)}</i>' if kind else escaped(part))
    return "".join(parts)


def _tokens(lexer: Lexer, code: str) -> Iterator[tuple[str, str]]:
    for kind, text in lexer.get_tokens(code):
        name = str(kind)
        yield next((short for prefix, short in _CLASSES if name.startswith(prefix)), ""), text


@lru_cache(maxsize=128)
def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=128)
def _lexer_of(name: str) -> Lexer | None:
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    try:
        return get_lexer_for_filename(name, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None
