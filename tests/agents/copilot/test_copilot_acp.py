"""Copilot over ACP: recordings replayed through its own dialect, and how it is launched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

import pytest
from msgspec.structs import replace

from tests.agents.acp.acp_far_side import far_side
from tests.agents.acp.acp_playback import RECORDINGS as ACP
from tests.agents.acp.acp_playback import Player, Said, encoded, lines
from tests.agents.copilot.copilot_playback import RECORDINGS, SPEC
from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.copilot.agent import agent
from tillerman.agents.copilot.dialect import ROW, CopilotDialect
from tillerman.agents.copilot.failures import failure_of
from tillerman.agents.copilot.wire import CopilotWire
from tillerman.core.agent import SecretFile, SessionSpec
from tillerman.core.events import (
    Diff,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    PlanChanged,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from tillerman.core.session_options import with_options
from tillerman.core.wire import Wire
from tillerman.testing.conformance import check_agent

TALKS = sorted(
    path.parent
    for folder in (ACP / "copilot", RECORDINGS / "acp")
    for path in folder.glob("*/wire.jsonl")
)
E = TypeVar("E")
TINY = {"tiny": {"command": "tiny"}}


class _Agent(AcpAgent):
    """As recorded: the host did not change the mode, and passed its server at the start."""

    def __init__(self) -> None:
        super().__init__(replace(ROW, modes={}), CopilotDialect)

    def _wire(self, spec: SessionSpec) -> Wire:
        return CopilotWire(self.dialect, with_options(spec, servers=TINY))


def play(talk: Path) -> list[Said]:
    return Player(_Agent(), lines(talk)).play()


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
def test_a_conversation_gives_the_events_of_its_golden_file(talk: Path) -> None:
    golden = RECORDINGS / "acp" / f"{talk.name}.events.jsonl"
    assert encoded(play(talk)) == golden.read_text()


@pytest.mark.parametrize("talk", TALKS, ids=lambda talk: talk.name)
def test_nothing_recorded_is_unrecognized(talk: Path) -> None:
    assert [one for one in play(talk) if isinstance(one, Unrecognized)] == []


@pytest.mark.parametrize(
    ("talk", "tools"),
    [
        ("two_turns", ["Write", "Read", "Edit"]),
        ("searches", ["Grep", "Glob"]),
        ("failed_command", ["Bash"]),
        ("subagent", ["Task"]),
        ("mcp", ["MCP"]),
        ("todo", ["sql"]),
    ],
)
def test_its_tools_are_distinguished_by_their_input(talk: str, tools: list[str]) -> None:
    assert [one.tool for one in _received(talk, ToolStarted)] == tools


def test_each_turn_counts_its_own_tokens() -> None:
    reported = _received("two_turns", UsageReported)
    used = [(one.input_tokens, one.output_tokens) for one in reported if not one.call]
    assert used == [(200, 40), (300, 60)]


def test_each_model_call_reports_its_context_and_its_agent() -> None:
    reported = [one for one in _received("subagent", UsageReported) if one.call]
    assert [(one.context_used, one.call, one.parent) for one in reported] == [
        (8988, "begun", None),
        (9022, "begun", None),
    ]


def test_a_written_file_is_a_diff_and_not_reported_twice() -> None:
    assert _received("two_turns", ToolFinished)[0].content == (
        Diff("/proj/new.txt", new="one\ntwo\n"),
    )
    assert _received("two_turns", Notice) == []


def test_a_command_that_fails_is_failed_with_its_own_output() -> None:
    [end] = _received("failed_command", ToolFinished)
    assert (end.outcome, end.content) == ("failed", (Text("oops\n"),))


def test_what_plan_mode_forbids_was_denied() -> None:
    assert [one.outcome for one in _received("plan", ToolFinished)] == ["denied"]


def test_a_tool_of_a_server_is_requested_by_its_servers_name() -> None:
    [asked] = _received("mcp", PermissionRequested)
    assert (asked.tool, asked.title, asked.input) == ("MCP", "MCP `tiny.shout`", {"text": "hi"})


def test_messages_of_a_subagent_are_inside_of_its_call() -> None:
    parsed: dict[str | None, str] = {}
    for one in _received("subagent", MessageChunk):
        parsed[one.parent] = parsed.get(one.parent, "") + one.text
    [task] = _received("subagent", ToolStarted)
    assert parsed == {task.call_id: "Hello there.", None: "Sub done."}


@pytest.mark.parametrize(
    ("talk", "kind", "status"),
    [
        ("auth_error", "not_signed_in", 401),
        ("model_404", "model_not_found", 404),
        ("context_overflow", "context_overflow", None),
    ],
)
def test_an_error_sent_as_a_message_fails_the_turn(
    talk: str, kind: str, status: int | None
) -> None:
    end = _received(talk, TurnEnded)[0]
    assert end.failure is not None
    assert (end.reason, end.failure.kind, end.failure.status) == ("failed", kind, status)
    assert not any("Error:" in one.text for one in _received(talk, MessageChunk))


def test_the_turn_after_an_error_completes() -> None:
    assert [one.reason for one in _received("auth_error", TurnEnded)] == ["failed", "completed"]


def test_an_absent_plan_is_not_reported() -> None:
    assert _received("todo", PlanChanged) == []


def test_a_cancelled_running_command_is_reported_and_the_next_turn_completes() -> None:
    assert [one.outcome for one in _received("cancel_tool", ToolFinished)] == ["cancelled"]
    assert [one.reason for one in _received("cancel_tool", TurnEnded)] == ["cancelled", "completed"]


def test_text_of_the_model_that_looks_like_an_error_is_text() -> None:
    messages = lines(ACP / "copilot" / "hello")
    first = next(one for one in messages if "agent_message_chunk" in json.dumps(one))
    first["msg"]["params"]["update"]["content"]["text"] = "Error: is a word. "
    received = Player(_Agent(), messages).play()
    text = "".join(one.text for one in received if isinstance(one, MessageChunk))
    assert text.startswith("Error: is a word. ")
    assert [one.reason for one in received if isinstance(one, TurnEnded)] == ["completed"]


def test_the_title_of_a_session_is_not_its_system_prompt() -> None:
    messages = lines(ACP / "copilot" / "hello")
    for one in messages:
        update = one["msg"].get("params", {}).get("update", {})
        if update.get("sessionUpdate") == "session_info_update":
            update["title"] = "<instructions>\nBe brief.\n</instructions>\nFix it"
    titles = [getattr(one, "title", None) for one in Player(_Agent(), messages).play()]
    assert [title for title in titles if title] == ["Fix it"]


def test_options_the_protocol_lacks_are_on_its_command_line() -> None:
    servers = {"echo": {"command": "echoer", "env": {"KEY": "v"}}}
    spec = with_options(
        SPEC, model="m", effort="high", servers=servers, folders=(Path("/more"),),
        allowed_tools=("shell(git:*)",), denied_tools=("write",),
    )  # fmt: skip
    assert agent.dialect.launch(spec).argv == [
        "copilot", "--acp", "--model=m", "--reasoning-effort=high",
        SecretFile("--additional-mcp-config=@", json.dumps({"mcpServers": servers}).encode()),
        "--add-dir=/more", "--allow-tool=shell(git:*)", "--deny-tool=write",
    ]  # fmt: skip
    assert agent.dialect.session(spec) == {"mcpServers": []}


def test_it_is_not_started_before_its_hook_socket_exists() -> None:
    assert agent.program(SPEC) is None
    assert agent.program(with_options(SPEC, options={"surface": "json"})) is None


def test_it_conforms() -> None:
    check_agent(agent, streams=0, far_side=far_side)


def test_it_conforms_with_its_recordings(tmp_path: Path) -> None:
    """The lines have the ids of the wire's own requests."""
    for talk in ("failed_command", "mcp", "subagent", "model_404", "searches"):
        player = Player(_Agent(), lines(RECORDINGS / "acp" / talk))
        player.play()
        (tmp_path / talk).mkdir()
        (tmp_path / talk / "wire.jsonl").write_bytes(b"\n".join(player.heard_lines))
    check_agent(_Agent(), tmp_path, cuts=2, streams=20, far_side=far_side)


def _received(talk: str, kind: type[E]) -> list[E]:
    return [one for one in play(RECORDINGS / "acp" / talk) if isinstance(one, kind)]


@pytest.mark.parametrize(
    "message",
    [
        "400 The model rejected the prompt as too long",
        "The call failed and was retried 5 times. Last error: 400 prompt is too long: 210000",
    ],
)
def test_a_prompt_that_is_too_long_is_reported_however_it_is_worded(message: str) -> None:
    assert failure_of(message).kind == "context_overflow"


AGAIN = "Info: Response was interrupted due to a server error. Retrying..."  # of 1.0.102


def _broken_off(messages: list[dict[str, Any]], attempts: int) -> list[dict[str, Any]]:
    """A turn whose last message was requested several times."""
    at = max(number for number, one in enumerate(messages) if _words(one))
    while _words(messages[at - 1]):
        at -= 1
    chunk = messages[at]["msg"]
    more = []
    for words in ("Half of ", "it", AGAIN) * attempts:
        update = {**chunk["params"]["update"], "content": {"type": "text", "text": words}}
        params = {**chunk["params"], "update": update}
        more.append({"dir": "in", "msg": {**chunk, "params": params}})
    return [*messages[:at], *more, *messages[at:]]


def _words(one: dict[str, Any]) -> str:
    match one["msg"].get("params", {}).get("update"):
        case {"sessionUpdate": "agent_message_chunk", "content": {"text": str(reported)}}:
            return "" if reported.startswith(ROW.notice_prefixes) else reported
    return ""


def _final_text(messages: list[Said]) -> str:
    gone = {one.message_id for one in messages if isinstance(one, MessageWithdrawn)}
    chunks = [one for one in messages if isinstance(one, MessageChunk)]
    return "".join(one.text for one in chunks if one.message_id not in gone)


@pytest.mark.parametrize("attempts", [1, 2, 5])
@pytest.mark.parametrize("talk", ["hello", "shell_allowed", "failed_command"])
def test_text_before_a_retried_request_is_withdrawn(talk: str, attempts: int) -> None:
    [folder] = [one for one in TALKS if one.name == talk]
    whole = Player(_Agent(), lines(folder)).play()
    again = Player(_Agent(), _broken_off(lines(folder), attempts)).play()
    assert _final_text(again) == _final_text(whole)
    halves = [one for one in again if isinstance(one, MessageChunk) and one.text == "Half of "]
    assert len(halves) == attempts
