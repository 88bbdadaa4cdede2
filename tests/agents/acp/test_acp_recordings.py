"""Every recorded ACP connection, replayed turn by turn, gives the events of its golden file."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.agents.acp.acp_playback import RECORDINGS, Said, encoded, lines, name, play, recordings
from tillerman.core.events import (
    MessageChunk,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    Unrecognized,
    UsageReported,
)

AGENTS = {
    "auggie", "claude-agent-acp", "claude-agent-acp-0.99.1", "cline", "codex-acp",
    "codex-acp-2.6.0", "copilot", "cursor-acp", "gemini",
    "opencode", "qwen-0.15.10", "qwen-0.24.4",
}  # fmt: skip


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(play(recording)) == (recording / "events.jsonl").read_text()


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_no_recorded_line_is_unrecognized(recording: Path) -> None:
    assert [one for one in play(recording) if isinstance(one, Unrecognized)] == []


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_each_call_begins_and_ends_once_and_is_not_reported_afterwards(recording: Path) -> None:
    received = play(recording)
    begun = Counter(one.call_id for one in received if isinstance(one, ToolStarted))
    ended = Counter(one.call_id for one in received if isinstance(one, ToolFinished))
    assert set(begun.values()) | set(ended.values()) <= {1}
    assert begun == ended
    over: set[str] = set()
    for one in received:
        match one:
            case ToolFinished(call_id=call_id):
                over.add(call_id)
            case ToolUpdated(call_id=call_id):
                assert call_id in begun
                assert call_id not in over


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_each_answer_to_a_prompt_ends_one_turn(recording: Path) -> None:
    received = play(recording)
    messages = lines(recording)
    prompts = {
        one["msg"]["id"]
        for one in messages
        if one["dir"] == "out" and one["msg"].get("method") == "session/prompt"
    }
    answers = [
        one
        for one in messages
        if one["dir"] == "in" and "method" not in one["msg"] and one["msg"]["id"] in prompts
    ]
    wake_pipe = sum(
        1
        for one in messages
        if one["dir"] == "in" and one["msg"].get("method") == "_qwencode/end_turn"
    )
    assert sum(isinstance(one, TurnEnded) for one in received) == len(answers) + wake_pipe


@pytest.mark.parametrize("recording", recordings(), ids=name)
def test_the_messages_are_those_sent_during_turns(recording: Path) -> None:
    words = "".join(one.text for one in play(recording) if isinstance(one, MessageChunk))
    assert words == _said_in_turns(lines(recording))


@pytest.mark.parametrize("agent", ["claude-agent-acp", "codex-acp", "opencode"])
def test_the_messages_of_a_turn_are_those_the_agent_replays(agent: str) -> None:
    """`session/load` replays the history, each message whole."""
    received = play(RECORDINGS / agent / "load_1")
    again = [one["msg"] for one in lines(RECORDINGS / agent / "load_2") if one["dir"] == "in"]
    reported: list[str] = []
    for msg in again:
        if "result" in msg and "configOptions" in msg["result"]:
            break
        update = msg.get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "agent_message_chunk" and update["content"]["text"]:
            reported.append(update["content"]["text"])
    assert reported
    assert _messages(received) == reported


@pytest.mark.parametrize("agent", ["claude-agent-acp", "codex-acp", "opencode", "gemini"])
def test_replayed_history_is_not_an_event_of_a_turn(agent: str) -> None:
    recording = RECORDINGS / agent / ("load_session" if agent == "gemini" else "load_2")
    history = json.dumps([one for one in lines(recording) if one["dir"] == "in"])
    assert "user_message_chunk" in history
    received = play(recording)
    first = next(i for i, one in enumerate(received) if isinstance(one, MessageChunk | ToolStarted))
    assert not [one for one in received[:first] if isinstance(one, TurnEnded)]
    assert _messages(received) == _last_turn(lines(recording))


def test_agents_that_count_tokens_report_the_usage_of_each_turn() -> None:
    used = {
        agent: [one for one in play(RECORDINGS / agent / "shell") if isinstance(one, UsageReported)]
        for agent in ("claude-agent-acp", "codex-acp", "opencode")
    }
    counted = {agent: [(u.input_tokens, u.output_tokens) for u in us] for agent, us in used.items()}
    assert counted == {
        "claude-agent-acp": [(0, 0), (0, 0), (200, 30)],
        "codex-acp": [(0, 0)],
        "opencode": [(0, 0)],
    }
    calls = {agent: [u.call for u in us] for agent, us in used.items()}
    assert calls == {
        "claude-agent-acp": ["begun", "begun", None],
        "codex-acp": ["begun"],
        "opencode": [None],
    }


def test_there_are_recordings_of_every_agent() -> None:
    assert {recording.parent.name for recording in recordings()} == AGENTS


def _messages(received: Sequence[Said]) -> list[str]:
    messages: dict[str, str] = {}
    for one in received:
        if isinstance(one, MessageChunk):
            messages[one.message_id] = messages.get(one.message_id, "") + one.text
    return list(messages.values())


def _said_in_turns(messages: list[dict[str, Any]]) -> str:
    """The model's text, without replayed messages and the agents' own notices."""
    words, replaying = "", False
    for one in messages:
        msg = one["msg"]
        match one["dir"], msg:
            case "out", {"method": "session/load"}:
                replaying = True
            case "out", {"method": "session/prompt"}:
                replaying = False
            case "in", {"params": {"update": {"sessionUpdate": "agent_message_chunk"} as update}}:
                text = update["content"]["text"]
                if not replaying and not text.startswith(("[MODE_UPDATE] ", "Info: ")):
                    words += text
    return words


def _last_turn(messages: list[dict[str, Any]]) -> list[str]:
    prompted = max(
        i for i, one in enumerate(messages) if one["msg"].get("method") == "session/prompt"
    )
    return [_said_in_turns(messages[prompted:])]
