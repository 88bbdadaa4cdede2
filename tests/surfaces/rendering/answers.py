"""Generated answers of an agent, and what a CommonMark parser finds in them."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Sequence
from html import escape
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

_WORDS = (
    "the quick brown fox Vec<u8> map[string]int a<b && c>d x*y*z snake_case __init__ 2*3 5 # ! "
    "C:\\dir ~/a ~~gone~~ **bold** *it* _it_ ***both*** `code` `` a`b `` `<Tab>` $a_b^2$ \\(x\\) "
    "$$\\sum_i$$ <Tab> <Enter> <br> <br/> </p> <b>x</b> <a href='u'>y</a> <!--note--> <?pi?> "
    "<![CDATA[z]]> [bold]x[/bold] [red] [/] [link=u]v[/link] :smile: [^1] [^note] [x] [x][y] [ ] "
    "&amp; &lt;b&gt; &#x41; &#955; &nbsp; &copy; &nosuch; &#27; &#x202e; \\* \\_ \\# \\< \\\\ "
    "日本語 汉字漢字 한국어 עברית العربية naïve e\u0301 n\u0303\u0323 \u0301 👨\u200d👩\u200d👧 "
    "👍🏽 🇩🇪 ☂\ufe0f 🎉 "
    "soft\u00adhyphen zero\u200bwidth rtl\u202eabc\u202c nul\x00 bell\x07 \x1b[31mred\x1b[0m "
    "\x1b]0;title\x07 del\x7f c1\x9b2J back\x08\x08 form\x0cfeed vt\x0b \t tab\tbed | a|b \\| "
    "1. 2) - + > # ## === --- *** ``` ~~~ ://x http://e.com/a_b_c?d=e&f=g#h www.e.com a@b.c"
)
PLAIN = _WORDS.split(" ")
LINKS = (
    "[text](http://e.com/p)", '[t *em*](<a b> "the title")', "[t](/rel 'single')",
    "[e]()", '![alt `code`](pic.png "caption")', "![](no-alt.png)", "<https://auto.link/x?y=z>",
    "<me@mail.org>", "[in ![img](i.png) link](u)", "[j](javascript:alert(1))", "[p](a(b)c)",
    "[ent](http://e.com/?a&amp;b)", "[esc\\]aped](u\\)v)", "[un](http://日本.jp/ü%20x)",
)  # fmt: skip
LANGUAGES = ("", "python", "rust", "sh", "json", "mermaid", "diff", "c++", 'py title="a b"', "{.x}")


def answer(seed: int) -> str:
    """Markdown as agents write it, some of it broken."""
    chance = random.Random(seed)
    parts = [_block(chance, 0) for _ in range(chance.randint(1, 6))]
    text = "".join(part + chance.choice(("\n\n", "\n\n", "\n\n", "\n", "\n\n\n")) for part in parts)
    if chance.random() < 0.3:
        text = _broken(chance, text)
    return text


def _words(chance: random.Random, most: int = 9) -> str:
    pool: Sequence[str] = LINKS if chance.random() < 0.2 else PLAIN
    few = [chance.choice(PLAIN) for _ in range(chance.randint(1, most))]
    return " ".join([*few, chance.choice(pool)])


def _block(chance: random.Random, depth: int) -> str:
    kinds = [_paragraph, _paragraph, _heading, _fence, _code, _table, _html, _definition, _rule]
    if depth < 4:
        kinds += [_list, _list, _quote]
    return chance.choice(kinds)(chance, depth)


def _paragraph(chance: random.Random, depth: int) -> str:
    ends = ("\n", "\n", "  \n", "\\\n")
    return "".join(_words(chance) + chance.choice(ends) for _ in range(chance.randint(1, 4)))[:-1]


def _heading(chance: random.Random, depth: int) -> str:
    if chance.random() < 0.3:
        return f"{_words(chance)}\n{chance.choice(('====', '----'))}"
    return f"{'#' * chance.randint(1, 7)} {_words(chance, 4)}"


def _fence(chance: random.Random, depth: int) -> str:
    bars = chance.choice(("```", "````", "~~~"))
    body = "\n".join(chance.choice(("", "    ", "\t")) + _words(chance) for _ in range(4))
    end = "" if chance.random() < 0.1 else f"\n{bars}"
    return f"{bars}{chance.choice(LANGUAGES)}\n{body}\n\n{_words(chance)}{end}"


def _code(chance: random.Random, depth: int) -> str:
    return "\n".join(f"    {_words(chance)}" for _ in range(chance.randint(1, 3)))


def _table(chance: random.Random, depth: int) -> str:
    count = chance.randint(1, 5)

    def row(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    cells = [[_words(chance, 3) for _ in range(count)] for _ in range(chance.randint(1, 4))]
    marks = [chance.choice((":-", "-:", ":-:", "---")) for _ in range(count)]
    return "\n".join([row(cells[0]), row(marks), *map(row, cells[1:])])


def _html(chance: random.Random, depth: int) -> str:
    tag = chance.choice(("details", "div", "pre", "script", "table", "p", "custom-tag"))
    return f"<{tag} class=x>\n{_words(chance)}\n<summary>{_words(chance, 2)}</summary>\n</{tag}>"


def _definition(chance: random.Random, depth: int) -> str:
    label = chance.choice(("^1", "^note", "x", "y", "a ref"))
    target = chance.choice(("Note", "http://e.com/x", "<a b>", "Note and more", "/u (title)"))
    return f"[{label}]: {target}"


def _rule(chance: random.Random, depth: int) -> str:
    return chance.choice(("---", "***", "_ _ _"))


def _quote(chance: random.Random, depth: int) -> str:
    inner = "\n\n".join(_block(chance, depth + 1) for _ in range(chance.randint(1, 2)))
    return "\n".join(f"> {line}" for line in inner.split("\n"))


def _list(chance: random.Random, depth: int) -> str:
    first, gap = chance.randint(0, 12), chance.choice(("\n", "\n", "\n\n"))
    step, dot = chance.choice((0, 1, 1, 1, 2)), chance.choice(".)")
    items = []
    for number in range(chance.randint(1, 4)):
        mark = (
            f"{first + step * number}{dot} " if dot == ")" or step else chance.choice("-*+") + " "
        )
        blocks = [chance.choice(("", "[ ] ", "[x] ")) + _words(chance)]
        if depth < 3 and chance.random() < 0.4:
            blocks.append(_block(chance, depth + 1))
        body = chance.choice(("\n", "\n\n")).join(blocks)
        items.append(mark + body.replace("\n", "\n" + " " * len(mark)))
    return gap.join(items)


def _broken(chance: random.Random, text: str) -> str:
    """Removes, doubles or moves a few characters somewhere."""
    for _ in range(chance.randint(1, 6)):
        at = chance.randint(0, len(text))
        end = min(len(text), at + chance.randint(1, 6))
        text = chance.choice((
            text[:at] + text[end:],
            text[:end] + text[at:],
            text[:at] + chance.choice("`*_[]()<>|#>-\n\t ~&\\") + text[at:],
        ))  # fmt: skip
    return text


# -- what must be seen -----------------------------------------------------------------------------

DECORATION = frozenset("•▌─🌆")


def letters(text: str) -> str:
    """All characters except spaces and those that tillerman draws."""
    return "".join(char for char in text if not char.isspace() and char not in DECORATION)


def visible(text: str) -> str:
    """By the Unicode category of each character: a sign for controls, nothing for joiners."""
    return "".join(map(_sign, text.replace("\r\n", "\n")))


def _sign(char: str) -> str:
    code = ord(char)
    if char in "\n\t":
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if unicodedata.category(char) == "Cc":
        return f"⟨{code:02x}⟩"
    if unicodedata.bidirectional(char) in ("RLO", "PDF", "LRO", "RLE", "LRE"):
        return f"⟨{code:04x}⟩"
    return "" if unicodedata.category(char) == "Cf" or char == "\ufe0f" else char


class _Page(HTMLParser):
    """The text of a page, with the targets of its links and images."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text = ""
        self._links: list[tuple[int, str, str]] = []

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "a":
            self._links.append((len(self.text), found.get("href", ""), found.get("title", "")))
        elif tag == "img":
            self._links.append((len(self.text), found["src"], found.get("title", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("a", "img"):
            start, url, title = self._links.pop()
            reported = visible(self.text[start:]) == visible(url.removeprefix("mailto:"))
            parts = ["" if reported else url, f'"{title}"' if title else ""]
            if any(parts):
                self.text += f"({''.join(parts)})"


class _Renderer(RendererHTML):
    """Adds what a terminal shows: an image's text, a code block's language, an item's number."""

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        token.attrs.pop("alt", None)
        words = self.renderInline(token.children or (), options, env)
        return f"<img{self.renderAttrs(token)}>{words}</img>"

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        return f"<p>{escape(token.info.strip())}</p><pre>{escape(token.content)}</pre>"

    def list_item_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        token = tokens[idx]
        return f"<li>{token.info}{token.markup if token.info else ''}"


def expected(text: str) -> str:
    """The letters that CommonMark, with tables and strikethrough, does not parse as markup.

    HTML and link definitions do not count as markup: a terminal would show nothing of them.
    """
    markdown = MarkdownIt("commonmark", {"html": False, "maxNesting": 100}, renderer_cls=_Renderer)
    markdown.enable(["table", "strikethrough"]).disable("reference")
    markdown.normalizeLink = markdown.normalizeLinkText = str  # type: ignore[method-assign]
    markdown.validateLink = lambda url: True  # type: ignore[method-assign]
    page = _Page()
    page.feed(markdown.render(visible(text)))
    page.close()
    return letters(visible(page.text))
