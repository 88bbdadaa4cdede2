"""The Markdown that agents write, parsed so that nothing a terminal would not show is markup."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

NESTING = 100  # blocks inside blocks; deeper ones are shown as they were written


class _Parser(MarkdownIt):
    """Links stay as they are written: none of them is followed."""

    def normalizeLink(self, url: str) -> str:
        return url

    def normalizeLinkText(self, link: str) -> str:
        return link

    def validateLink(self, url: str) -> bool:
        return True


@cache
def parser() -> MarkdownIt:
    """HTML and link definitions are no markup here: a terminal would show nothing of them."""
    parser = _Parser("commonmark", {"html": False, "maxNesting": NESTING})
    return parser.enable(["table", "strikethrough"]).disable("reference")


def last_block(text: str) -> int:
    """The number of the line with which its last block begins that is in no other one."""
    tokens: list[Token] = []
    parser().block.parse(text, parser(), {}, tokens)
    return max((token.map[0] for token in tokens if token.level == 0 and token.map), default=0)
