"""The pages that users read, and their code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests import CHECKOUT

_FENCE = re.compile(
    r"(?:^[ ]*<!-- parsed only: (?P<reason>.*?) -->\n)?"
    r"^(?P<indent>[ ]*)```(?P<info>[^\n]*)\n(?P<text>.*?)^[ ]*```$",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Block:
    """A code block of a page; with a reason, it is only parsed."""

    page: str
    line: int
    language: str
    text: str
    reason: str | None

    @property
    def id(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """README.md, SECURITY.md and docs/, without the decisions, which are history."""
    docs = sorted((CHECKOUT / "docs").rglob("*.md"))
    stored = [path for path in docs if "decisions" not in path.parts]
    return [CHECKOUT / "README.md", CHECKOUT / "SECURITY.md", *stored]


def blocks(language: str = "") -> list[Block]:
    """Of one language, or all."""
    found = [block for path in pages() for block in _blocks(path)]
    return [block for block in found if language in ("", block.language)]


def _blocks(path: Path) -> list[Block]:
    text = path.read_text("utf-8")
    page = str(path.relative_to(CHECKOUT))
    return [
        Block(
            page,
            text.count("\n", 0, found.start("info")) + 1,
            found["info"].split(" ")[0],
            found["text"],
            found["reason"],
        )
        for found in _FENCE.finditer(text)
    ]


def without_blocks(text: str) -> str:
    return _FENCE.sub("", text)
