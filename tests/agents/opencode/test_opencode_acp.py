"""OpenCode over ACP: recordings replayed through its own dialect, and how it is launched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.acp.acp_far_side import Talk, far_side, opened
from tests.agents.acp.acp_playback import RECORDINGS as ACP
from tests.agents.acp.acp_playback import Player, Said, encoded, lines
from tests.agents.opencode.opencode_playback import RECORDINGS, SPEC
from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.opencode.agent import agent
from tillerman.agents.opencode.config import ASK
from tillerman.agents.opencode.dialect import ROW, OpencodeDialect
from tillerman.agents.opencode.wire import OpencodeWire
from tillerman.core.agent import SecretFile, SessionSpec
from tillerman.core.events import (
    AgentReady,
    Diff,
    MessageChunk,
    Option,
    PermissionRequested,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.core.session_options import with_options
from tillerman.core.wire import Wire, WireReply
from tillerman.testing.conformance import check_agent

TALKS = sorted(path.parent for path in (ACP / "opencode").glob("*/wire.jsonl"))


class _Agent(AcpAgent):
    """As recorded: the host did not change the mode."""

    def __init__(self) -> None:
        super().__init__(replace(ROW, modes={}), OpencodeDialect)

    def _wire(self, spec: SessionSpec) -> Wire:
        return OpencodeWire(self.dialect, spec)


def play(talk: str) -> list[Said]:
    return Player(_Agent(), lines(ACP / "opencode" / talk)).play()


@pytest.mark.parametrize("talk", [path.name for path in TALKS])
def test_a_conversation_gives_the_events_of_its_golden_file(talk: str) -> None:
    golden = RECORDINGS / "acp" / f"{talk}.events.jsonl"
    assert encoded(play(talk)) == golden.read_text()


@pytest.mark.parametrize("talk", [path.name for path in TALKS])
def test_nothing_recorded_is_unrecognized(talk: str) -> None:
    assert [one for one in play(talk) if isinstance(one, Unrecognized)] == []


def test_a_written_file_is_shown_and_an_edit_is_its_diff_alone() -> None:
    assert _finished("write_allowed")[0].content == (Diff("/proj/new.txt", new="one\ntwo\n"),)
    assert _finished("edit")[1].content == (Diff("/proj/a.txt", old="world", new="WORLD"),)


def test_a_command_that_fails_is_failed_and_an_aborted_one_is_cancelled() -> None:
    assert [one.outcome for one in _finished("tool_failed")] == ["failed"]
    assert [one.outcome for one in _finished("cancel_tool")] == ["cancelled"]
    assert [one.outcome for one in _finished("write_rejected")] == ["denied"]


def test_an_error_of_the_provider_is_reported_with_the_next_step() -> None:
    [end] = [one for one in play("auth_error") if isinstance(one, TurnEnded)]
    assert end.failure == Failure(
        kind="not_signed_in",
        message="Incorrect API key provided: sk-fake.",
        hint="run `opencode auth login`, or set the key of the model's provider",
    )


def test_the_tokens_of_a_turn_with_tools_are_left_out_and_its_cost_is_reported() -> None:
    [used] = [one for one in play("shell") if isinstance(one, UsageReported)]
    assert (used.input_tokens, used.cost_usd) == (0, 0.00046)


def test_the_cost_of_earlier_processes_is_not_counted_in_the_first_turn_after_them() -> None:
    used = [one.cost_usd for one in play("load_2") if isinstance(one, UsageReported)]
    assert used == [None]


def test_history_replayed_by_a_fork_emits_no_event() -> None:
    wire = _Agent().wire(replace(SPEC, resume="ses_1", fork=True))
    [hello] = wire.greet()
    can = {"sessionCapabilities": {"fork": {}}}
    [fork] = _answer(wire, hello, {"protocolVersion": 1, "agentCapabilities": can})
    assert isinstance(fork, WireReply)
    assert fork.message["method"] == "session/fork"
    fields = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "1 todos", "rawInput": {}}
    update = {"method": "session/update", "params": {"sessionId": "ses_2", "update": fields}}
    assert list(wire.decode(json.dumps(update).encode())) == []
    assert _answer(wire, fork.message, {"sessionId": "ses_2"}) == [AgentReady(native_id="ses_2")]


def _answer(wire: Wire, request: dict[str, Any], result: dict[str, Any]) -> list[Said]:
    message = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    return list(wire.decode(json.dumps(message).encode()))


def test_the_message_text_is_the_streamed_text() -> None:
    message = "".join(one.text for one in play("hello") if isinstance(one, MessageChunk))
    assert message == "The answer is 42.\n\nDone."


def test_it_is_launched_to_ask_for_everything_without_the_users_files() -> None:
    launch = agent.dialect.launch(SPEC)
    assert launch.argv == ("opencode", "acp", "--print-logs", "--log-level=ERROR")
    assert list(launch.env) == ["OPENCODE_CONFIG_CONTENT"]
    config = json.loads(str(launch.env["OPENCODE_CONFIG_CONTENT"]))
    for rules in (config["permission"], config["agent"]["build"]["permission"]):
        assert (rules["?*"], rules["tas?"]) == ("ask", "deny")
    assert config["agent"]["plan"]["permission"]["edi?"]["*"] == "deny"


def test_a_request_waits_for_the_input_of_its_call() -> None:
    talk = _connection()
    read = {"toolCallId": "call_1", "title": "read", "kind": "read"}
    assert talk.send_update("tool_call", **read, status="pending", rawInput={}) == []
    assert (
        talk.request_permission(0, {**read, "status": "pending", "rawInput": {}, "locations": []})
        == []
    )
    input = {"filePath": "/etc/passwd"}
    fields = {"toolCallId": "call_1", "status": "in_progress", "title": "read", "kind": "read"}
    started, asked = talk.send_update("tool_call_update", **fields, rawInput=input)
    assert isinstance(started, ToolStarted)
    assert asked == PermissionRequested(
        request_id="0",
        tool="Read",
        title="Read `/etc/passwd`",
        input=input,
        paths=("/etc/passwd",),
        call_id="call_1",
        options=(
            Option("allow", "allow_once", "allow"),
            Option("deny", "reject_once", "deny"),
        ),
    )


def test_two_requests_for_one_call_wait_for_it_and_none_is_lost() -> None:
    talk = _connection()
    call = {"toolCallId": "call_1", "title": "bash", "kind": "execute", "rawInput": {}}
    for id in (0, 1):
        assert talk.request_permission(id, call) == []
    reported = talk.send_update(
        "tool_call_update", **{**call, "rawInput": {"command": "ls /etc"}}, status="in_progress"
    )
    asked = [event.request_id for event in reported if isinstance(event, PermissionRequested)]
    assert asked == ["0", "1"]
    [later] = talk.request_permission(2, call)  # it does not tell of the call again
    assert isinstance(later, PermissionRequested)


def test_a_waiting_request_is_withdrawn_with_the_turn() -> None:
    talk = _connection()
    talk.request_permission(
        0, {"toolCallId": "call_1", "title": "read", "kind": "read", "rawInput": {}}
    )
    cancel, refused = talk.wire.cancel()
    assert cancel["method"] == "session/cancel"
    assert refused == {"jsonrpc": "2.0", "id": 0, "result": {"outcome": {"outcome": "cancelled"}}}


def test_a_request_without_a_call_does_not_wait() -> None:
    talk = _connection()
    _, asked = talk.request_permission(
        0, {"toolCallId": "per_1", "title": "workflow", "kind": "other"}
    )
    assert isinstance(asked, PermissionRequested)


def test_a_tool_invented_by_the_model_failed() -> None:
    talk = _connection()
    call = {"toolCallId": "call_1", "kind": "other", "rawInput": {"tool": "fly", "error": "no"}}
    talk.send_update("tool_call", **call, title="fly", status="pending")
    [*_, end] = talk.send_update(
        "tool_call_update", **call, title="Invalid Tool", status="completed"
    )
    assert isinstance(end, ToolFinished)
    assert end.outcome == "failed"


def test_the_system_prompt_is_a_file_of_the_session() -> None:
    launch = agent.dialect.launch(replace(SPEC, system="Be brief."))
    config = json.loads(str(launch.env["OPENCODE_CONFIG_CONTENT"]))
    assert config["instructions"] == ["{env:TILLERMAN_OPENCODE_INSTRUCTIONS}"]
    assert launch.env["TILLERMAN_OPENCODE_INSTRUCTIONS"] == SecretFile("", b"Be brief.")


def test_additional_config_does_not_weaken_the_required_approvals() -> None:
    more = {"model": "p/m", "permission": {"*": "allow"}}
    launch = agent.dialect.launch(with_options(SPEC, options={"config": more}))
    config = json.loads(str(launch.env["OPENCODE_CONFIG_CONTENT"]))
    assert (config["model"], config["permission"]) == ("p/m", ASK)


def test_its_other_transport_is_selected_by_config() -> None:
    spec = with_options(SPEC, options={"surface": "run"})
    assert agent.program(spec) is None
    started = agent.program(SPEC)
    assert started is not None
    assert started.argv == ("opencode", "acp", "--print-logs", "--log-level=ERROR")


def test_it_conforms() -> None:
    check_agent(agent, streams=0, far_side=far_side)


def test_it_conforms_with_its_recordings(tmp_path: Path) -> None:
    """The lines have the ids of the wire's own requests."""
    for talk in ("edit", "hello", "shell", "tool_failed", "write_allowed", "auth_error"):
        player = Player(_Agent(), lines(ACP / "opencode" / talk))
        player.play()
        (tmp_path / talk).mkdir()
        (tmp_path / talk / "wire.jsonl").write_bytes(b"\n".join(player.heard_lines))
    check_agent(_Agent(), tmp_path, cuts=2, streams=20, far_side=far_side)


def _connection() -> Talk:
    return opened(SPEC, replace(ROW, modes={}), OpencodeDialect)


def _finished(talk: str) -> list[ToolFinished]:
    return [one for one in play(talk) if isinstance(one, ToolFinished)]
