"""The programs beside those of claude-agent-sdk have the number of lines that the page says."""

from __future__ import annotations

import re

from tests import CHECKOUT
from tests.documents.pages import blocks

PAGE = "docs/claude-agent-sdk.md"
_ROW = re.compile(r"^\| \d+ \| .* \| (\d+) \| (\d+) \|$", re.MULTILINE)


def test_each_program_has_at_most_as_many_lines() -> None:
    rows = [(int(there), int(here)) for there, here in _ROW.findall((CHECKOUT / PAGE).read_text())]
    programs = [block.text for block in blocks("python") if block.page == PAGE]
    counted = [sum(bool(line.strip()) for line in program.splitlines()) for program in programs]
    assert counted == [here for _, here in rows]
    assert len(rows) == 10
    assert all(here <= there for there, here in rows)
