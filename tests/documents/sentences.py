"""The sentences and table rows of the pages that are written by hand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests import CHECKOUT
from tests.documents.pages import pages, without_blocks

_LEFT_OUT = re.compile(r"<!-- [^\n]*: generated -->.*?<!-- end -->|<!--.*?-->", re.DOTALL)
_BEGIN = re.compile(r"[-*] |\d+\. |\||#|>|!\[")
_END = re.compile(r"(?<=[.?!;]) +(?=[A-Z`\"“(])")
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_GENERATED = {"agents", "reference"}


def written_pages() -> list[Path]:
    """All pages but the generated ones."""
    return [page for page in pages() if page.parent.name not in _GENERATED]


def sentences(page: Path) -> list[str]:
    """In order, on one line each, with the texts of links in place of links."""
    text = _LEFT_OUT.sub("", without_blocks(page.read_text("utf-8")))
    return [sentence for part in _parts(text) for sentence in _split(part)]


def name_of(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


def _parts(text: str) -> Iterator[str]:
    """Paragraphs, items of lists and rows of tables; no headings."""
    part: list[str] = []
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        if part and (not stripped or _BEGIN.match(stripped)):
            yield " ".join(part)
            part = []
        if stripped and not stripped.startswith("#"):
            part.append(stripped)


def _split(part: str) -> Iterator[str]:
    part = re.sub(r"!(?=\[)", "", part)
    part = _LINK.sub(r"\1", part).replace("**", "")
    if part.startswith("|"):
        if set(part) - set("|-: "):
            yield part
        return
    part = re.sub(r"^(?:[-*] |\d+\. )", "", part)
    for sentence in _END.split(part):
        if re.search(r"\w", sentence):
            yield sentence.strip()
