"""Every recording of Cursor gives the events of its golden file, and each text once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.cursor.cursor_playback import RECORDINGS, encoded, received, recordings, text_of
from tillerman.agents import load
from tillerman.core.events import ToolFinished, ToolStarted, TurnEnded, Unrecognized, UsageReported
from tillerman.testing import check_agent

ODD = "odd_lines"


def name(recording: Path) -> str:
    return recording.name


def result(recording: Path) -> dict[str, object] | None:
    lines = (recording / "wire.jsonl").read_bytes().splitlines()
    last = json.loads(lines[-1])
    return last if last["type"] == "result" else None


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(received(recording)) == (recording / "events.jsonl").read_bytes()


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_no_line_of_a_known_kind_is_unrecognized(recording: Path) -> None:
    unknown = [one.why for one in received(recording) if isinstance(one, Unrecognized)]
    assert [why.partition(":")[0] for why in unknown] == (
        ["a line of type 'some_future_event'", "a tool call that names no tool", "not JSON"]
        if recording.name == ODD
        else []
    )


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_the_text_of_a_turn_equals_that_of_its_result(recording: Path) -> None:
    reported = result(recording)
    if reported is not None and not reported["is_error"]:
        assert text_of(received(recording)) == reported["result"]


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_a_result_ends_the_turn_and_reports_usage(recording: Path) -> None:
    reported = result(recording)
    events = received(recording)
    ends = [one.reason for one in events if isinstance(one, TurnEnded)]
    assert ends == ([] if reported is None else ["failed" if reported["is_error"] else "completed"])
    report = sum(isinstance(one, UsageReported) for one in events)
    assert report == (reported is not None and "usage" in reported)


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_each_call_starts_and_finishes_once(recording: Path) -> None:
    events = received(recording)
    started = [one.call_id for one in events if isinstance(one, ToolStarted)]
    finished = [one.call_id for one in events if isinstance(one, ToolFinished)]
    assert sorted(started) == sorted(finished)
    assert len(set(started)) == len(started)


def test_partial_output_and_whole_output_give_the_same_events() -> None:
    whole, pieces = received(RECORDINGS / "tools"), received(RECORDINGS / "tools_partial")
    assert text_of(pieces) == text_of(whole)
    assert len([one for one in pieces if isinstance(one, ToolFinished)]) == len(
        [one for one in whole if isinstance(one, ToolFinished)]
    )


def test_cursor_conforms() -> None:
    check_agent(load("cursor"), RECORDINGS, cuts=8, streams=100)
