"""Every recording of Qwen Code's stream gives the events of its golden file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.acp.acp_far_side import far_side
from tests.agents.qwen.qwen_playback import RECORDINGS, Said, encoded, lines, name, play, recordings
from tillerman.agents import load
from tillerman.agents.qwen.agent import agent
from tillerman.core.events import (
    MessageChunk,
    ToolFinished,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from tillerman.testing.conformance import check_agent


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(play(recording)) == (recording / "events.jsonl").read_text()


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_no_recorded_line_is_unrecognized(recording: Path) -> None:
    assert [one for one in play(recording) if isinstance(one, Unrecognized)] == []


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_each_result_ends_one_turn_with_one_usage(recording: Path) -> None:
    received = play(recording)
    results = _results(recording)
    assert sum(isinstance(one, TurnEnded) for one in received) == len(results)
    assert sum(isinstance(one, UsageReported) for one in received) == len(results)


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_the_last_message_of_a_successful_turn_is_its_result(recording: Path) -> None:
    received = play(recording)
    ends = [one for one in received if isinstance(one, TurnEnded)]
    reported = [
        result["result"]
        for result, end in zip(_results(recording), ends, strict=True)
        if end.reason == "completed"
    ]
    assert _last_messages(received) == reported


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_an_api_error_is_not_emitted_as_an_agent_message(recording: Path) -> None:
    words = "".join(one.text for one in play(recording) if isinstance(one, MessageChunk))
    assert "[API Error" not in words


FAILURES = {
    "0.15.10/control_misc": ("model_not_found", 404),
    "0.15.10/drop": ("stream_broken", None),
    "0.15.10/empty": ("stream_broken", None),
    "0.15.10/error_400": ("api_error", 400),
    "0.15.10/error_401": ("not_signed_in", 401),
    "0.15.10/error_402": ("billing", 402),
    "0.15.10/error_403": ("not_signed_in", 403),
    "0.15.10/error_404": ("model_not_found", 404),
    "0.15.10/error_500": ("api_error", 500),
    "0.15.10/error_no_auth": ("not_signed_in", None),
    "0.15.10/error_no_key": ("not_signed_in", None),
    "0.15.10/error_unknown_model": ("model_not_found", 404),
    "0.15.10/json_schema": ("agent_failed", None),
    "0.24.4/error_401": ("not_signed_in", 401),
}


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_a_failure_is_classified(recording: Path) -> None:
    found = [
        (one.failure.kind, one.failure.status)
        for one in play(recording)
        if isinstance(one, TurnEnded) and one.failure
    ]
    assert found == ([FAILURES[name(recording)]] if name(recording) in FAILURES else [])


def test_an_interrupt_ends_the_turn_of_newer_versions() -> None:
    received = play(RECORDINGS / "0.24.4" / "control_permissions_interrupt")
    ends = [one.reason for one in received if isinstance(one, TurnEnded)]
    assert ends == ["completed", "completed", "cancelled", "completed"]


def test_a_call_that_is_interrupted_is_cancelled() -> None:
    received = play(RECORDINGS / "0.15.10" / "control_interrupt_in_tool")
    assert [one.outcome for one in received if isinstance(one, ToolFinished)] == ["cancelled"]


def test_usage_before_a_resume_is_not_counted_again() -> None:
    received = play(RECORDINGS / "0.15.10" / "resume_turn2", resume="s")
    usage = [one for one in received if isinstance(one, UsageReported)]
    assert [(one.input_tokens, one.output_tokens) for one in usage] == [(120, 15)]


def test_there_are_recordings_of_both_versions() -> None:
    assert {recording.parent.name for recording in recordings()} == {"0.15.10", "0.24.4"}


def test_the_agent_conforms() -> None:
    check_agent(load("qwen"), streams=0, far_side=far_side)


@pytest.mark.parametrize("version", ["0.15.10", "0.24.4"])
def test_its_stream_protocol_conforms(version: str) -> None:
    check_agent(agent.other, RECORDINGS / version, cuts=5, streams=50)


def _results(recording: Path) -> list[dict[str, str]]:
    messages = [one["msg"] for one in lines(recording) if one["dir"] == "in"]
    return [msg for msg in messages if msg["type"] == "result"]


def _last_messages(received: list[Said]) -> list[str]:
    last: list[str] = []
    messages: dict[str, str] = {}
    for one in received:
        match one:
            case MessageChunk(message_id=message_id, text=text, parent=None):
                messages[message_id] = messages.pop(message_id, "") + text
            case TurnEnded(reason=reason):
                if reason == "completed":
                    last.append(list(messages.values())[-1] if messages else "")
                messages = {}
    return last
