"""Redaction of an agent's lines and events: all are searched together, and each is redacted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tillerman.core.agent import DecodedLine
from tillerman.core.events import Event, MessageChunk, Notice, Text, ToolFinished
from tillerman.sessions.log.sanitizer import RAW_CAP, EventSanitizer
from tillerman.sessions.log.size_limits import DiskBudget
from tillerman.supervision.secrets import Secrets
from tillerman.testing.test_host import FileSpill

SECRET = "correct-horse-battery-staple"
RAW = b'{"line": "of nothing"}'
HELLO = Notice(level="info", kind="session", text="hello")
CLEAN = DecodedLine(RAW, [HELLO])


@pytest.fixture
def sanitizer(tmp_path: Path) -> EventSanitizer:
    return EventSanitizer(
        Secrets({"KEY": SECRET}),
        output_cap=1_000,
        budget=DiskBudget(100 * RAW_CAP),
        spill=lambda: FileSpill(tmp_path / "spill"),
    )


def stored(
    sanitizer: EventSanitizer, *batch: DecodedLine
) -> list[tuple[bytes | None, Sequence[Event]]]:
    return [(raw, events) for raw, events, _ in sanitizer.sanitize(batch)]


def result(text: str) -> Event:
    return ToolFinished(call_id="c", outcome="completed", content=(Text(text),))


def test_an_event_without_a_secret_is_stored_unchanged(sanitizer: EventSanitizer) -> None:
    line = DecodedLine(b'{"result": "a"}', [result("a")])
    taken = stored(sanitizer, CLEAN, line)
    assert taken == [(RAW, [HELLO]), (line.raw, [result("a")])]


def test_a_secret_visible_only_in_the_event_is_found(sanitizer: EventSanitizer) -> None:
    """For example one that a wire joined from several lines."""
    line = DecodedLine(b'{"rest": "staple"}', [result(f"it is {SECRET}")])
    taken = stored(sanitizer, CLEAN, line)
    assert taken == [(RAW, [HELLO]), (line.raw, [result("it is [secret:KEY]")])]


def test_a_secret_visible_only_in_the_line_is_found(sanitizer: EventSanitizer) -> None:
    line = DecodedLine(b'{"key": "%b"}' % SECRET.encode(), [result("done")])
    taken = stored(sanitizer, CLEAN, line)
    assert taken == [(RAW, [HELLO]), (b'{"key": "[secret:KEY]"}', [result("done")])]


def test_a_secret_in_text_beside_a_tool_result_is_found(sanitizer: EventSanitizer) -> None:
    text = DecodedLine(None, [MessageChunk(message_id="m", text=f"it is {SECRET}, yes")])
    taken = list(sanitizer.sanitize([text, CLEAN]))
    messages = [e.text for line in taken for e in line.events if isinstance(e, MessageChunk)]
    assert "".join(messages) == "it is [secret:KEY], yes"


def test_a_secret_in_a_very_long_line_is_found(sanitizer: EventSanitizer) -> None:
    raw = b'{"key": "%b", "rest": "%b"}' % (SECRET.encode(), b"x" * RAW_CAP)
    (line,) = sanitizer.sanitize([DecodedLine(raw, [result(SECRET)])])
    assert line.events == [result("[secret:KEY]")]
    assert SECRET.encode() not in (line.raw or b"")


def test_held_back_text_comes_before_the_tool_result(sanitizer: EventSanitizer) -> None:
    """It might have been the start of a secret."""
    begun = DecodedLine(None, [MessageChunk(message_id="m", text=f"so {SECRET[:12]}")])
    taken = [*sanitizer.sanitize([begun]), *sanitizer.sanitize([DecodedLine(b"{}", [result("a")])])]
    events = [event for line in taken for event in line.events]
    message = "".join(event.text for event in events if isinstance(event, MessageChunk))
    assert message == f"so {SECRET[:12]}"
    assert events[-1] == result("a")
