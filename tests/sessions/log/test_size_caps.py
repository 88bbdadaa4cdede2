"""Caps of events: long text is cut in the middle, and the whole goes to a spill file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.core.events import Diff, Event, Text, ToolFinished, ToolStarted
from tillerman.sessions.log.size_limits import LONGEST_TITLE, SizeCaps
from tillerman.supervision.secrets import Secrets
from tillerman.testing.test_host import FileSpill

CAP = 1_000
SECRET = "correct-horse-battery-staple"


@pytest.fixture
def spill(tmp_path: Path) -> Path:
    return tmp_path / "spill"


@pytest.fixture
def caps(spill: Path) -> SizeCaps:
    return SizeCaps(Secrets({"KEY": SECRET}), CAP, lambda: FileSpill(spill))


@pytest.mark.parametrize(
    "event",
    [
        ToolFinished(call_id="c", outcome="completed", content=(Text("x" * CAP),)),
        ToolFinished(call_id="c", outcome="completed", content=(Text("\u20ac" * CAP),)),
        ToolFinished(call_id="c", outcome="completed", content=(Diff("a.py", patch="+x"),)),
        ToolStarted(call_id="c", tool="Bash", name="Bash", title="ls", input={"command": "ls"}),
    ],
)
def test_an_event_that_fits_stays_the_same_object(caps: SizeCaps, event: Event) -> None:
    assert caps.apply(event) is event


def test_a_long_result_keeps_its_ends_and_is_whole_in_a_file(caps: SizeCaps, spill: Path) -> None:
    text = "begin " + "x" * 10 * CAP + " end"
    capped = caps.apply(ToolFinished(call_id="c", outcome="completed", content=(Text(text),)))
    assert isinstance(capped, ToolFinished)
    (part,) = capped.content
    assert isinstance(part, Text) and part.cut
    assert part.text.startswith("begin ") and part.text.endswith(" end")
    assert len(part.text) < CAP + 100
    assert spill.read_text() == text


def test_no_part_of_a_secret_remains_where_a_title_is_cut(caps: SizeCaps) -> None:
    title = "x" * (LONGEST_TITLE - 10) + SECRET
    capped = caps.apply(ToolStarted(call_id="c", tool="Bash", name="Bash", title=title))
    assert isinstance(capped, ToolStarted)
    assert SECRET[:5] not in capped.title
