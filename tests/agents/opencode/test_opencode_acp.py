"""OpenCode over ACP: the recorded talks through its own dialect, and how it is launched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from acp_far_side import far_side
from acp_playback import RECORDINGS as ACP
from acp_playback import Player, Said, encoded, lines
from msgspec.structs import replace
from opencode_playback import RECORDINGS, SPEC

from bridle.agents.acp.agent import AcpAgent
from bridle.agents.opencode import agent
from bridle.agents.opencode.dialect import ROW, OpencodeDialect
from bridle.agents.opencode.wire import OpencodeWire
from bridle.core.agent import SecretFile, SessionSpec
from bridle.core.events import (
    AgentReady,
    Diff,
    MessageChunk,
    ToolFinished,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from bridle.core.failure import Failure
from bridle.core.wire import Reply, Wire
from bridle.testing.conformance import check_agent

TALKS = sorted(path.parent for path in (ACP / "opencode").glob("*/wire.jsonl"))


class _Agent(AcpAgent):
    """As it was recorded: the host left the mode as it was."""

    def __init__(self) -> None:
        super().__init__(replace(ROW, modes={}), OpencodeDialect)

    def _wire(self, spec: SessionSpec) -> Wire:
        return OpencodeWire(self.dialect, spec)


def play(talk: str) -> list[Said]:
    return Player(_Agent(), lines(ACP / "opencode" / talk)).play()


@pytest.mark.parametrize("talk", [path.name for path in TALKS])
def test_a_talk_gives_the_events_of_its_golden_file(talk: str) -> None:
    golden = RECORDINGS / "acp" / f"{talk}.events.jsonl"
    assert encoded(play(talk)) == golden.read_text()


@pytest.mark.parametrize("talk", [path.name for path in TALKS])
def test_nothing_recorded_is_unrecognized(talk: str) -> None:
    assert [one for one in play(talk) if isinstance(one, Unrecognized)] == []


def test_a_file_that_is_written_is_shown_and_an_edit_is_its_diff_alone() -> None:
    assert _finished("write_allowed")[0].content == (Diff("/proj/new.txt", new="one\ntwo\n"),)
    assert _finished("edit")[1].content == (Diff("/proj/a.txt", old="world", new="WORLD"),)


def test_a_command_that_fails_is_failed_and_one_that_was_aborted_is_cancelled() -> None:
    assert [one.outcome for one in _finished("tool_failed")] == ["failed"]
    assert [one.outcome for one in _finished("cancel_tool")] == ["cancelled"]
    assert [one.outcome for one in _finished("write_rejected")] == ["denied"]


def test_an_error_of_the_provider_is_told_with_what_to_do() -> None:
    [end] = [one for one in play("auth_error") if isinstance(one, TurnEnded)]
    assert end.failure == Failure(
        kind="not_signed_in",
        message="Incorrect API key provided: sk-fake.",
        hint="run `opencode auth login`, or set the key of the model's provider",
    )


def test_the_tokens_of_a_turn_with_tools_are_left_out_and_its_cost_is_told() -> None:
    [used] = [one for one in play("shell") if isinstance(one, UsageReported)]
    assert (used.input_tokens, used.cost_usd) == (0, 0.00046)


def test_what_earlier_processes_cost_is_not_the_cost_of_the_first_turn_after_them() -> None:
    used = [one.cost_usd for one in play("load_2") if isinstance(one, UsageReported)]
    assert used == [None]


def test_the_history_that_a_fork_tells_again_is_no_event() -> None:
    wire = _Agent().wire(replace(SPEC, resume="ses_1", fork=True))
    [hello] = wire.greet()
    can = {"sessionCapabilities": {"fork": {}}}
    [fork] = _answer(wire, hello, {"protocolVersion": 1, "agentCapabilities": can})
    assert isinstance(fork, Reply)
    assert fork.message["method"] == "session/fork"
    told = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "1 todos", "rawInput": {}}
    update = {"method": "session/update", "params": {"sessionId": "ses_2", "update": told}}
    assert list(wire.decode(json.dumps(update).encode())) == []
    assert _answer(wire, fork.message, {"sessionId": "ses_2"}) == [AgentReady(native_id="ses_2")]


def _answer(wire: Wire, request: dict[str, Any], result: dict[str, Any]) -> list[Said]:
    message = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    return list(wire.decode(json.dumps(message).encode()))


def test_what_is_said_is_what_was_streamed() -> None:
    said = "".join(one.text for one in play("hello") if isinstance(one, MessageChunk))
    assert said == "The answer is 42.\n\nDone."


def test_it_is_launched_to_ask_for_everything_without_a_file_of_the_users() -> None:
    launch = agent.dialect.launch(SPEC)
    assert launch.argv == ("opencode", "acp")
    assert list(launch.env) == ["OPENCODE_CONFIG_CONTENT"]
    config = json.loads(str(launch.env["OPENCODE_CONFIG_CONTENT"]))
    assert config["permission"]["*"] == "ask"
    assert config["permission"]["task"] == "deny"
    assert config["agent"]["plan"]["permission"]["edit"]["*"] == "deny"


def test_the_system_prompt_is_a_file_of_the_sessions_own() -> None:
    launch = agent.dialect.launch(replace(SPEC, system="Be brief."))
    config = json.loads(str(launch.env["OPENCODE_CONFIG_CONTENT"]))
    assert config["instructions"] == ["{env:BRIDLE_OPENCODE_INSTRUCTIONS}"]
    assert launch.env["BRIDLE_OPENCODE_INSTRUCTIONS"] == SecretFile("", b"Be brief.")


def test_more_config_comes_from_bridles_and_does_not_weaken_what_is_asked() -> None:
    more = {"model": "p/m", "permission": {"*": "allow"}}
    launch = agent.dialect.launch(replace(SPEC, options={"config": more}))
    config = json.loads(str(launch.env["OPENCODE_CONFIG_CONTENT"]))
    assert (config["model"], config["permission"]["*"]) == ("p/m", "ask")


def test_its_other_surface_is_taken_by_config() -> None:
    spec = replace(SPEC, options={"surface": "run"})
    assert agent.program(spec) is None
    started = agent.program(SPEC)
    assert started is not None
    assert started.argv == ("opencode", "acp")


def test_it_conforms() -> None:
    check_agent(agent, streams=0, far_side=far_side)


def test_it_conforms_with_its_recordings(tmp_path: Path) -> None:
    """As its wire hears them: with the ids of its own requests."""
    for talk in ("edit", "hello", "shell", "tool_failed", "write_rejected", "auth_error"):
        player = Player(_Agent(), lines(ACP / "opencode" / talk))
        player.play()
        (tmp_path / talk).mkdir()
        (tmp_path / talk / "wire.jsonl").write_bytes(b"\n".join(player.heard_lines))
    check_agent(_Agent(), tmp_path, cuts=2, streams=20, far_side=far_side)


def _finished(talk: str) -> list[ToolFinished]:
    return [one for one in play(talk) if isinstance(one, ToolFinished)]
