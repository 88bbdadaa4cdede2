"""An agent's Markdown as quiet terminal text: headings to the left, code without a box."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading
from rich.markdown import Markdown as RichMarkdown
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.theme import Theme

from bridle.core.terminal import clean

_QUIET = Theme({"markdown.code": "cyan", "markdown.h2": "bold", "markdown.h1": "bold underline"})


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _CodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        shown = Syntax(
            code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True
        )
        yield Padding(shown, (0, 0, 0, 2))


class _As:
    """Drawn by that."""

    def __init__(self, draw: Callable[[Console, ConsoleOptions], RenderResult]) -> None:
        self._draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._draw(console, options)


class Markdown(RichMarkdown):
    """Without the blank lines that some blocks begin and end with: who shows it has its own."""

    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False)
        _clean(self.parsed)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with console.use_theme(_QUIET):
            lines = console.render_lines(_As(super().__rich_console__), options, pad=False)
        while lines and _is_blank(lines[0]):
            lines.pop(0)
        while lines and _is_blank(lines[-1]):
            lines.pop()
        for line in lines:
            yield from line
            yield Segment.line()

    elements = {  # noqa: RUF012 (Rich looks them up so)
        **RichMarkdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }


def _is_blank(line: Iterable[Segment]) -> bool:
    return not any(segment.text.strip() for segment in line)


def _clean(tokens: Iterable[Token]) -> None:
    """Once more: `&#x202e;` is harmless as text, and no longer after it was read as Markdown."""
    for token in tokens:
        token.content = clean(token.content)
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrs[name] = clean(value)
        _clean(token.children or ())
