"""The programs beside those of claude-agent-sdk: as many lines as the page says, and their output.

Its README is in claude_agent_sdk_readme.md; tests/real compares that with the package.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.documents.pages import blocks

PAGE = "docs/claude-agent-sdk.md"
THERE = CHECKOUT / "tests/documents/claude_agent_sdk_readme.md"
_ROW = re.compile(r"^\| \d+ \| (.*) \| (\d+) \| (\d+) \|$", re.MULTILINE)
_SECTION = re.compile(r"^## ([^\n]*)\n\n```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

PRINTS = [
    r"(?s).*TurnStarted.*MessageChunk.*TurnEnded",
    r".+",
    r".+",
    r"(?s)Write `\S+` completed\n.*Bash .* denied",
    r"completed",
    r".*You are a release bot\.",
    r"Hello, Alice!",
    r"Monday",
    r"(?s).*foo\.sh.*outcome='denied'.*\n.*echo hello.*outcome='completed'",
    r"the turn failed: rate_limited .+",
]


def there() -> list[tuple[str, str]]:
    """The section and the program of each."""
    return _SECTION.findall(THERE.read_text())


def here() -> list[str]:
    return [block.text for block in blocks("python") if block.page == PAGE]


def lines(program: str) -> int:
    """Without blank lines and comments."""
    dull = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    tokens = tokenize.generate_tokens(io.StringIO(program).readline)
    return len({line for one in tokens if one.type not in dull for line in _lines_of(one)})


def _lines_of(token: tokenize.TokenInfo) -> range:
    return range(token.start[0], token.end[0] + 1)


def test_each_program_has_at_most_as_many_lines() -> None:
    counted = [
        (section, lines(theirs), lines(ours))
        for (section, theirs), ours in zip(there(), here(), strict=True)
    ]
    table = _ROW.findall((CHECKOUT / PAGE).read_text())
    assert [(name.split(": ")[-1], int(a), int(b)) for name, a, b in table] == [
        (name.split(": ")[-1], a, b) for name, a, b in counted
    ]
    assert len(counted) == 10
    assert [section for section, theirs, ours in counted if ours > theirs] == []


def test_no_program_saves_lines_by_their_width() -> None:
    assert max(len(line) for program in here() for line in program.splitlines()) <= 100
    assert not any(";" in line for program in here() for line in program.splitlines())


def test_both_pages_name_one_version() -> None:
    locked = re.search(
        r"^claude-agent-sdk==(\S+)", (CHECKOUT / "requirements/bench.lock").read_text(), re.M
    )
    assert locked
    for path in (CHECKOUT / PAGE, THERE):
        assert f" {locked[1]}" in path.read_text()


@pytest.mark.parametrize("number", range(10))
def test_each_program_does_what_its_section_says(number: int, tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", here()[number]],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert re.match(PRINTS[number], ran.stdout), ran.stdout
