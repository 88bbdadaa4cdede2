"""Every recording of Codex gives the events of its golden file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.agents.codex.codex_playback import Said, encoded, lines, name, received, recordings
from tillerman.agents import load
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.events import (
    MessageChunk,
    MessageWithdrawn,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from tillerman.testing.conformance import check_agent

APP_SERVER = recordings("app-server")
EXEC = recordings("exec")
ALL = [*APP_SERVER, *EXEC]
CUT_OFF = {"sigint-command", "sigint-streaming", "connection-waiting"}


@pytest.mark.parametrize("recording", ALL, ids=name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(received(recording)) == (recording / "events.jsonl").read_text()


@pytest.mark.parametrize("recording", ALL, ids=name)
def test_no_recorded_line_is_unrecognized(recording: Path) -> None:
    assert [one for one in received(recording) if isinstance(one, Unrecognized)] == []


@pytest.mark.parametrize("recording", APP_SERVER, ids=name)
def test_a_turn_of_the_app_server_ends_once(recording: Path) -> None:
    assert [type(one) for one in received(recording) if isinstance(one, TurnEnded)] == [TurnEnded]


@pytest.mark.parametrize("recording", APP_SERVER, ids=name)
def test_usage_reports_add_up_to_the_usage_of_the_turn(recording: Path) -> None:
    totals = [
        line["msg"]["params"]["tokenUsage"]["total"]
        for line in lines(recording)
        if line["msg"].get("method") == "thread/tokenUsage/updated"
    ]
    if recording.name == "resume-turn2":  # the first is the end of the turn before
        before, *_, after = totals
        totals = [{key: after[key] - before[key] for key in after}]
    last = totals[-1] if totals else {"inputTokens": 0, "outputTokens": 0}
    reports = [one for one in received(recording) if isinstance(one, UsageReported)]
    assert sum(one.output_tokens for one in reports) == last["outputTokens"]
    assert sum(one.input_tokens + one.cached_tokens for one in reports) == last["inputTokens"]


@pytest.mark.parametrize("recording", EXEC, ids=name)
def test_a_turn_of_exec_ends_once_unless_it_was_cut_off(recording: Path) -> None:
    ends = [one for one in received(recording) if isinstance(one, TurnEnded)]
    assert len(ends) == (0 if recording.name in CUT_OFF else 1)


@pytest.mark.parametrize("recording", ALL, ids=name)
def test_the_text_is_that_of_the_final_messages(recording: Path) -> None:
    assert _messages(received(recording)) == _final_texts(recording)


def test_there_are_recordings_of_both_transports() -> None:
    assert (len(APP_SERVER), len(EXEC)) == (35, 35)


def test_the_app_server_conforms() -> None:
    folder = Path(__file__).parents[2] / "recordings" / "codex" / "app-server"
    codex = load("codex")
    assert isinstance(codex, StdioAgent)
    plain = StdioAgent(codex.info, codex.wire)  # a recording has no hooks
    check_agent(plain, folder, cuts=3, streams=60, far_side=_far_side)


def test_exec_conforms() -> None:
    whole = Path(__file__).parents[2] / "recordings" / "codex" / "exec"
    check_agent(load("codex-exec"), whole, cuts=3, streams=60)


def _far_side(message: dict[str, Any]) -> list[dict[str, Any]]:
    """The app-server's answers, as far as a first turn needs them."""
    match message:
        case {"id": id, "method": "initialize"}:
            return [{"id": id, "result": {}}]
        case {"id": id, "method": "thread/start" | "thread/resume" | "thread/fork"}:
            return [{"id": id, "result": {"thread": {"id": "t"}, "model": "m"}}]
    return []


def _messages(lines: list[Said]) -> list[str]:
    messages: dict[str, str] = {}
    for one in lines:
        match one:
            case MessageChunk(message_id=message_id, text=text):
                messages[message_id] = messages.get(message_id, "") + text
            case MessageWithdrawn(message_id=message_id):
                messages.pop(message_id, None)
    return list(messages.values())


def _final_texts(recording: Path) -> list[str]:
    """Whole messages; of an interrupted one the streamed text."""
    texts: dict[str, str] = {}
    for line in lines(recording):
        msg = line.get("msg", line)
        params = msg.get("params", {})
        item = params.get("item", msg.get("item", {}))
        match msg.get("method", msg.get("type")):
            case "item/agentMessage/delta":
                texts[params["itemId"]] = texts.get(params["itemId"], "") + params["delta"]
            case "item/completed" | "item.completed" if "text" in item:
                if item["type"] in ("agentMessage", "agent_message"):
                    texts[item["id"]] = item["text"]
    return list(texts.values())
