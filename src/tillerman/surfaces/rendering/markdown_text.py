"""Renders inline Markdown as styled text, highlights code, and finds characters lost in parsing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from markdown_it.token import Token
from rich.syntax import Syntax
from rich.text import Text

from tillerman.core.terminal_sanitizer import reveal

_STYLES = {"strong": "bold", "em": "italic", "s": "strike", "link": "underline"}
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")


def inline_text(tokens: Iterable[Token]) -> Text:
    """Styled text of inline tokens; keeps line breaks and appends link targets."""
    text = Text()
    styles: list[str] = []
    links: list[tuple[int, Token]] = []
    for token in tokens:
        style = " ".join(styles)
        kind = token.type.removesuffix("_open").removesuffix("_close")
        match token.type:
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "code_inline":
                text.append(reveal(token.content), f"{style} cyan")
            case "image":
                start = len(text)
                text.append("🌆 ").append_text(inline_text(token.children or ()))
                text.append(_target(token, "src", text.plain[start + 2 :]), "dim")
            case "link_close":
                styles.pop()
                start, link = links.pop()
                text.append(_target(link, "href", text.plain[start:]), "dim")
            case _ if token.nesting > 0:
                styles.append(_STYLES.get(kind, ""))
                if token.type == "link_open":
                    links.append((len(text), token))
            case _ if token.nesting < 0:
                styles.pop()
            case _:
                text.append(reveal(token.content), style)
    return text


def _target(token: Token, name: str, shown: str) -> str:
    """Link target and title, omitting a URL equal to the link text."""
    url = reveal(str(token.attrs.get(name, "")))
    title = reveal(str(token.attrs.get("title", "")))
    parts = [] if url.removeprefix("mailto:") == shown else [url]
    if title:
        parts.append(f'"{title}"')
    message = " ".join(part for part in parts if part)
    return f" ({message})" if message else ""


def highlighted(code: str, info: str) -> Text:
    """Highlights code with foreground colors only, keeping the terminal background."""
    language = info.split(maxsplit=1)[0] if info else "text"
    syntax = Syntax("", language, theme="ansi_dark", background_color="default")
    text = Text(code.expandtabs(4))
    for start, end, style in syntax.highlight(text.plain).spans:
        text.stylize(style, start, min(end, len(text)))
    return text


def without_entities(source: str) -> str:
    """Masks entities: only a parser knows whether their letters are text or markup."""
    return _ENTITY.sub("¶", source)


def missing_letters(source: str, tokens: Sequence[Token]) -> Counter[str]:
    """Letters and digits of the source that no token contains. They are never markup."""
    written = Counter(filter(str.isalnum, source))
    written.subtract(char for part in _contents(tokens) for char in part)
    return +written


def _contents(tokens: Iterable[Token]) -> Iterator[str]:
    for token in tokens:
        if token.children is not None:
            yield from _contents(token.children)
        else:
            yield token.content
        if token.markup != "autolink":  # whose target equals its text
            yield from (str(token.attrs.get(name, "")) for name in ("href", "src", "title"))
        if token.type in ("fence", "list_item_open"):
            yield token.info
