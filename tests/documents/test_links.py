"""Every link of the documents refers to a file and a heading that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.documents.pages import pages, without_blocks

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*?) *$", re.MULTILINE)
_MORE = [CHECKOUT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")]


@pytest.mark.parametrize("page", [*pages(), *_MORE], ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in _LINK.findall(without_blocks(page.read_text("utf-8"))):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_every_page_is_in_the_index() -> None:
    index = CHECKOUT / "docs/README.md"
    linked = {(index.parent / link).resolve() for link in _LINK.findall(index.read_text("utf-8"))}
    missing = {page for page in pages() if page.parent != index.parent / "agents"} - linked
    assert missing == {index, CHECKOUT / "README.md"}


def anchors(page: Path) -> set[str]:
    """Anchors of headings, as a forge generates them."""
    found: set[str] = set()
    for heading in _HEADING.findall(without_blocks(page.read_text("utf-8"))):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        number = 1
        while slug in found:
            slug = f"{slug.removesuffix(f'-{number - 1}')}-{number}"
            number += 1
        found.add(slug)
    return found
