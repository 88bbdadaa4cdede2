"""Every recording of Gemini CLI's stream gives the events of its golden file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.acp.acp_far_side import far_side, opened
from tests.agents.gemini.gemini_playback import RECORDINGS, encoded, lines, play, recordings
from tillerman.agents import load
from tillerman.agents.gemini.agent import agent
from tillerman.agents.gemini.dialect import GeminiDialect
from tillerman.agents.gemini.launch import ROW
from tillerman.core.events import (
    MessageChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from tillerman.testing.conformance import check_agent

BROKEN_OFF = {"cancel_sigint", "cancel_sigterm"}


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(play(recording)) == (recording / "events.jsonl").read_text()


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.name)
def test_no_recorded_line_is_unrecognized(recording: Path) -> None:
    assert [one for one in play(recording) if isinstance(one, Unrecognized)] == []


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.name)
def test_the_text_is_what_the_cli_wrote_and_nothing_else(recording: Path) -> None:
    wrote = [
        line["content"]
        for line in lines(recording)
        if line["type"] == "message" and line["role"] == "assistant"
    ]
    assert [one.text for one in play(recording) if isinstance(one, MessageChunk)] == wrote


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.name)
def test_a_turn_ends_once_with_one_usage_and_every_call_with_it(recording: Path) -> None:
    received = play(recording)
    ends = [one for one in received if isinstance(one, TurnEnded)]
    usages = [one for one in received if isinstance(one, UsageReported)]
    assert len(ends) == len(usages) == (recording.name not in BROKEN_OFF)
    begun = [one.call_id for one in received if isinstance(one, ToolStarted)]
    assert [one.call_id for one in received if isinstance(one, ToolFinished)] == begun


FAILURES = {
    "drop": ("stream_broken", None),
    "empty": ("api_error", None),
    "error_400": ("not_signed_in", 400),
    "error_401": ("not_signed_in", 401),
    "error_403": ("not_signed_in", 403),
    "error_404": ("model_not_found", None),
    "error_429": ("rate_limited", None),
    "error_500": ("api_error", 500),
    "error_unknown_model": ("model_not_found", None),
    "loop": ("turn_limit", None),
    "max_turns": ("turn_limit", None),
}


@pytest.mark.parametrize("recording", recordings(), ids=lambda path: path.name)
def test_a_failure_is_classified_and_names_the_next_step(recording: Path) -> None:
    failures = [
        one.failure for one in play(recording) if isinstance(one, TurnEnded) and one.failure
    ]
    found = [(failure.kind, failure.status) for failure in failures]
    assert found == ([FAILURES[recording.name]] if recording.name in FAILURES else [])
    assert all(failure.hint for failure in failures)


def test_an_api_limit_reports_how_long_to_wait() -> None:
    *_, end = play(RECORDINGS / "error_429")
    assert isinstance(end, TurnEnded)
    assert end.failure
    assert end.failure.retry_after == 1.0


def test_over_acp_the_stop_reason_of_a_loop_is_told_as_one() -> None:
    [end] = opened(row=ROW, dialect=GeminiDialect).answers({"stopReason": "max_turn_requests"})
    assert isinstance(end, TurnEnded)
    assert end.failure
    assert end.failure.kind == "turn_limit"
    assert "repeated itself" in end.failure.message
    assert "disableLoopDetection" in end.failure.hint


def test_both_transports_conform() -> None:
    check_agent(load("gemini"), streams=0, far_side=far_side)
    check_agent(agent.other, RECORDINGS, cuts=5, streams=50)
