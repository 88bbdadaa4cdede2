"""Every recording of Claude Code gives the events of its golden file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.claude.claude_playback import Said, encoded, lines, name, play, recordings
from tillerman.core.events import (
    MessageChunk,
    MessageWithdrawn,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
)

# Printed by `claude -p PROMPT`, which holds all results back until the end.
ONE_SHOT_WITH_TWO_RESULTS = {"2.1.325/subagent", "2.1.325/subagent_background_oneshot"}


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(play(lines(recording))) == (recording / "events.jsonl").read_text()


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_no_recorded_line_is_unrecognized(recording: Path) -> None:
    assert [one for one in play(lines(recording)) if isinstance(one, Unrecognized)] == []


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_each_result_ends_one_turn_with_one_usage(recording: Path) -> None:
    received = play(lines(recording))
    results = _results(recording)
    assert sum(isinstance(one, TurnEnded) for one in received) == len(results)
    counts = [one for one in received if isinstance(one, UsageReported) and not one.call]
    assert len(counts) == len(results)


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_the_last_message_of_a_turn_is_its_result(recording: Path) -> None:
    if name(recording) in ONE_SHOT_WITH_TWO_RESULTS:
        pytest.skip("its results do not come with their turns")
    reported = [
        result["result"]
        for result in _results(recording)
        if not result["is_error"] and result["result"]
    ]
    assert [text for text in _last_messages(play(lines(recording))) if text] == reported


def test_there_are_recordings_of_both_versions() -> None:
    assert {recording.parent.name for recording in recordings()} == {"2.1.197", "2.1.325"}


def _results(recording: Path) -> list[dict[str, object]]:
    messages = [one["msg"] for one in lines(recording) if one["dir"] == "in"]
    return [msg for msg in messages if msg["type"] == "result"]


def _last_messages(received: list[Said]) -> list[str]:
    """The text of the last message in each turn that completed or broke off unnoticed."""
    last: list[str] = []
    messages: dict[str, str] = {}
    for one in received:
        match one:
            case TurnStarted():
                messages = {}
            case MessageChunk(message_id=message_id, text=text, parent=None):
                messages[message_id] = messages.pop(message_id, "") + text
            case MessageWithdrawn(message_id=message_id):
                messages.pop(message_id, None)
            case TurnEnded(reason="completed"):
                last.append(list(messages.values())[-1] if messages else "")
                messages = {}
            case TurnEnded(failure=failure):
                if failure and failure.kind == "stream_broken":
                    last += messages.values()
                messages = {}
    return last
