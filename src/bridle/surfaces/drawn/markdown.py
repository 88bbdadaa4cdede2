"""An agent's Markdown as quiet terminal text: headings to the left, code without a box."""

from __future__ import annotations

from collections.abc import Iterable

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading
from rich.markdown import Markdown as RichMarkdown
from rich.padding import Padding
from rich.syntax import Syntax

from bridle.core.terminal import clean


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


class Markdown(RichMarkdown):
    def __init__(self, text: str) -> None:
        super().__init__(text, hyperlinks=False)
        _clean(self.parsed)

    elements = {  # noqa: RUF012 (Rich looks them up so)
        **RichMarkdown.elements,
        "heading_open": _Heading,
        "fence": _CodeBlock,
        "code_block": _CodeBlock,
    }


def _clean(tokens: Iterable[Token]) -> None:
    """Once more: `&#x202e;` is harmless as text, and no longer after it was read as Markdown."""
    for token in tokens:
        token.content = clean(token.content)
        for name, value in token.attrs.items():
            if isinstance(value, str):
                token.attrs[name] = clean(value)
        _clean(token.children or ())
