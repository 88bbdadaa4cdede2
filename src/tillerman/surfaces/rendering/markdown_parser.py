"""Configures the Markdown parser: HTML and link definitions stay visible text."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

NESTING = 100  # maximum depth of nested blocks; deeper ones are shown as source text


class _Parser(MarkdownIt):
    """Leaves URLs unchanged: no link is opened."""

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link

    def validateLink(self, url: str) -> bool:
        return True


@cache
def parser() -> MarkdownIt:
    """CommonMark with tables and strikethrough.

    HTML and link reference definitions are off, since a terminal would show nothing for them.
    """
    parser = _Parser("commonmark", {"html": False, "maxNesting": NESTING})
    return parser.enable(["table", "strikethrough"]).disable("reference")


def last_block(text: str) -> int:
    """Line number at which the last top-level block begins."""
    tokens: list[Token] = []
    parser().block.parse(text, parser(), {}, tokens)
    return max((token.map[0] for token in tokens if token.level == 0 and token.map), default=0)
