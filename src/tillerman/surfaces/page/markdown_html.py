"""Renders Markdown as HTML. HTML in the source stays visible text, and no letter is lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markdown_it.token import Token

from tillerman.surfaces.page.code_html import code_html
from tillerman.surfaces.page.html_text import escaped, icon, link
from tillerman.surfaces.rendering.markdown_parser import parser
from tillerman.surfaces.rendering.markdown_text import missing_letters, without_entities

_BLOCKS = {
    "paragraph": "p", "blockquote": "blockquote", "bullet_list": "ul", "ordered_list": "ol",
    "list_item": "li", "table": "table", "thead": "thead", "tbody": "tbody", "tr": "tr",
    "th": "th", "td": "td",
}  # fmt: skip
_INLINE = {"strong": "strong", "em": "em", "s": "s"}
_HIGHEST_HEADING = 3  # h1 is the title of the session, h2 heads a block


def markdown_html(text: str) -> str:
    """The source as text, if parsing would lose letters or the nesting is too deep."""
    try:
        tokens = parser().parse(text)
        plain = without_entities(text)
        checked = parser().parse(plain) if plain != text else tokens
    except RecursionError:
        return _source(text)
    return _source(text) if missing_letters(plain, checked) else _blocks(tokens)


def _source(text: str) -> str:
    return f'<p class="source">{escaped(text)}</p>'


def _blocks(tokens: Iterable[Token]) -> str:
    parts: list[str] = []
    for token in tokens:
        kind = token.type.removesuffix("_open").removesuffix("_close")
        match kind:
            case "inline":
                parts.append(inline_html(token.children or ()))
            case "fence" | "code_block":
                parts.append(_code(token))
            case "hr":
                parts.append("<hr>")
            case "heading":
                parts.append(_tag(f"h{_level(token.tag)}", token))
            case "paragraph" if token.hidden:
                if token.nesting < 0:
                    parts.append("\n")
            case "list_item" if token.nesting > 0 and token.info:
                parts.append(f'<li value="{int(token.info)}">')  # numbered as in the source
            case "th" | "td" if token.nesting > 0:
                right = ' class="r"' if "right" in str(token.attrs.get("style", "")) else ""
                parts.append(f"<{kind}{right}>")
            case _ if kind in _BLOCKS:
                parts.append(_tag(_BLOCKS[kind], token))
            case _:
                parts.append(escaped(token.content))
    return "".join(parts)


def inline_html(tokens: Sequence[Token]) -> str:
    """Text with emphasis, code and links; line breaks are kept."""
    parts: list[str] = []
    links: list[tuple[int, Token, list[str]]] = []  # where it begins, its token, its text
    for token in tokens:
        match token.type:
            case "softbreak" | "hardbreak":
                parts.append("<br>")
            case "code_inline":
                parts.append(f"<code>{escaped(token.content)}</code>")
            case "image":
                alt = token.content
                source = str(token.attrs.get("src", ""))
                shown = f"{icon('image')}{escaped(alt)}{_titled(token)}"
                parts.append(link(source, shown, alt))
            case "link_open":
                links.append((len(parts), token, []))
            case "link_close":
                start, opened, text = links.pop()
                content = "".join(parts[start:])
                url = str(opened.attrs.get("href", ""))
                shown = "".join(text)
                named = shown in (url, url.removeprefix("mailto:"))
                target = "" if named and not url.startswith("http") else url
                parts[start:] = [link(target, content, shown), _titled(opened)]
            case kind if (name := kind.removesuffix("_open").removesuffix("_close")) in _INLINE:
                parts.append(_tag(_INLINE[name], token))
            case _:
                parts.append(escaped(token.content))
        for _, _, text in links:
            text.append(token.content)
    return "".join(parts)


def _titled(token: Token) -> str:
    title = str(token.attrs.get("title", ""))
    return f' <span class="dim">“{escaped(title)}”</span>' if title else ""


def _code(token: Token) -> str:
    info = token.info.strip()
    language = info.split(maxsplit=1)[0] if info else ""
    copy = (
        '<button class="icon-btn sm" type="button" data-copy aria-label="Copy the code">'
        f"{icon('copy')}</button>"
    )
    return (
        f'<div class="codeblk"><div class="code-h"><span>{escaped(info)}</span>{copy}</div>'
        f'<pre tabindex="0"><code>{code_html(token.content.removesuffix(chr(10)), language)}'
        "</code></pre></div>"
    )


def _tag(name: str, token: Token) -> str:
    return f"<{'/' if token.nesting < 0 else ''}{name}>"


def _level(tag: str) -> int:
    return min(6, int(tag[1:]) + _HIGHEST_HEADING - 1)
