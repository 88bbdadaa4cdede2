"""`opencode run`: its recordings, and how a turn is launched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.agents.opencode.opencode_playback import (
    RECORDINGS,
    SPEC,
    Said,
    encoded,
    lines,
    name,
    play_run,
    recordings,
)
from tillerman.agents.opencode.agent import RUN
from tillerman.agents.opencode.run_wire import OpencodeRunWire
from tillerman.core.agent import File, Prompt, SecretFile
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    AgentReady,
    MessageChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from tillerman.core.session_options import session_spec, with_options
from tillerman.testing.conformance import check_agent

MCP = {"echo": {"command": "echoer", "args": ["-x"], "env": {"KEY": "v"}}}


@pytest.mark.parametrize("recording", recordings("run"), ids=name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(play_run(recording)) == (recording / "events.jsonl").read_text()


@pytest.mark.parametrize("recording", recordings("run"), ids=name)
def test_nothing_recorded_is_unrecognized_and_every_turn_ends_once(recording: Path) -> None:
    received = play_run(recording)
    assert [one for one in received if isinstance(one, Unrecognized)] == []
    assert sum(isinstance(one, AgentReady) for one in received) == 1
    assert sum(isinstance(one, UsageReported) for one in received) == 1
    assert [type(one) for one in received if isinstance(one, TurnEnded)] == [TurnEnded]


@pytest.mark.parametrize("recording", recordings("run"), ids=name)
def test_the_text_is_what_the_agent_wrote(recording: Path) -> None:
    parts = [line["part"] for line in lines(recording) if line["type"] == "text"]
    written = [part["text"] for part in parts if not part.get("synthetic")]
    if recording.name == "context-overflow":
        del written[0]  # its summary of the conversation
    assert _texts(play_run(recording)) == written


def test_its_agent_conforms() -> None:
    check_agent(RUN, RECORDINGS / "run", cuts=3, streams=50)


def test_the_prompt_goes_in_by_stdin_and_not_on_the_command_line() -> None:
    launch = OpencodeRunWire(SPEC).launch(SPEC, Prompt("--help\nme", (_text_file(),)))
    assert launch.argv == ["opencode", "run", "--format=json", "--thinking"]
    assert launch.stdin == b'<file name="a.txt">\nhi\n</file>\n--help\nme'
    assert launch.env == {}


def test_a_session_with_every_option() -> None:
    spec = with_options(
        SPEC, model="p/m", effort="high", mode="plan", resume="ses_1", fork=True,
        system="Be brief.", servers=MCP,
    )  # fmt: skip
    launch = OpencodeRunWire(spec).launch(spec, Prompt("go"))
    assert launch.argv[4:] == [
        "--model=p/m", "--variant=high", "--agent=plan", "--session=ses_1", "--fork",
    ]  # fmt: skip
    content = launch.env["OPENCODE_CONFIG_CONTENT"]
    assert isinstance(content, str)
    local = {"type": "local", "command": ["echoer", "-x"], "environment": {"KEY": "v"}}
    assert json.loads(content) == {
        "mcp": {"echo": local},
        "instructions": ["{env:TILLERMAN_OPENCODE_INSTRUCTIONS}"],
    }
    assert launch.env["TILLERMAN_OPENCODE_INSTRUCTIONS"] == SecretFile("", b"Be brief.")


def test_an_answer_only_session_is_restricted_by_rule() -> None:
    spec = replace(SPEC, mode="ask")
    content = OpencodeRunWire(spec).launch(spec, Prompt("go")).env["OPENCODE_CONFIG_CONTENT"]
    assert isinstance(content, str)
    denied = {"permission": {"edi?": "deny", "bas?": "deny", "tas?": "deny"}}
    assert json.loads(content) == {**denied, "agent": {"build": denied}}


def test_an_image_is_refused_with_the_supported_way() -> None:
    image = File("a.png", "image/png", b"\x89PNG\xff")
    with pytest.raises(Unsupported, match="attachments of type image/png") as caught:
        OpencodeRunWire(SPEC).launch(SPEC, Prompt("look", (image,)))
    assert "over ACP" in caught.value.hint


def test_the_tools_of_the_sessions_own_servers_are_recognized() -> None:
    recorded = (RECORDINGS / "run" / "mcp" / "wire.jsonl").read_bytes()
    server = re.findall(rb'"(\w+)_echo_it"', recorded)[0].decode()
    spec = session_spec(cwd=Path("/proj"), servers={server: {"command": "x"}})
    wire = OpencodeRunWire(spec)
    wire.launch(spec, Prompt("go"))
    messages = recorded.splitlines()
    received = [one for line in messages for one in wire.decode(line)]
    [call] = [one for one in received if isinstance(one, ToolStarted)]
    assert (call.tool, call.name, call.title) == (
        "MCP",
        f"{server}_echo_it",
        f"MCP `{server}.echo_it`",
    )


def test_each_process_reports_its_session_and_counts_from_zero() -> None:
    wire = OpencodeRunWire(SPEC)
    for recording in ("resume-turn1", "resume-turn2"):
        wire.launch(SPEC, Prompt("go"))
        messages = (RECORDINGS / "run" / recording / "wire.jsonl").read_bytes().splitlines()
        received = [one for line in messages for one in wire.decode(line)]
        assert AgentReady(native_id="ses_e2203c90effeZ5UuX3hS0FMcyc") in received
        assert [one.input_tokens for one in received if isinstance(one, UsageReported)] == [60]


def test_a_patch_of_several_files_names_them_all() -> None:
    patch = (
        "*** Begin Patch\n*** Add File: new.py\n+a\n*** Update File: old.py\n@@\n-a\n+b\n"
        "*** Delete File: gone.py\n*** End Patch"
    )
    files = [
        {"filePath": "/proj/new.py", "patch": "--- a\n+++ b\n@@ -0,0 +1 @@\n+a\n"},
        {"filePath": "/proj/old.py", "patch": "--- a\n+++ b\n@@ -1 +1 @@\n-a\n+b\n"},
    ]
    received = _tool(
        "apply_patch", {"patchText": patch}, metadata={"diff": "x\n@@ -1 +1 @@\n", "files": files}
    )
    started, finished = received[1:3]
    assert isinstance(started, ToolStarted)
    assert isinstance(finished, ToolFinished)
    assert (started.tool, started.paths) == ("MultiEdit", ("new.py", "old.py", "gone.py"))
    assert started.title == "Edit `new.py`, `old.py`, `gone.py`"
    assert [part.path for part in finished.content if hasattr(part, "path")] == [
        "/proj/new.py",
        "/proj/old.py",
    ]


@pytest.mark.parametrize(
    ("patch", "tool"),
    [
        ("*** Add File: a\n+x\n", "Write"),
        ("*** Update File: a\n@@\n", "Edit"),
        ("*** Delete File: a\n", "Delete"),
        ("*** Update File: a\n*** Move to: b\n@@\n", "Rename"),
    ],
)
def test_a_patch_of_one_file_is_its_action(patch: str, tool: str) -> None:
    started = _tool("apply_patch", {"patchText": patch})[1]
    assert isinstance(started, ToolStarted)
    assert started.tool == tool


def _tool(tool: str, input: dict[str, object], **state: object) -> list[Said]:
    wire = OpencodeRunWire(SPEC)
    wire.launch(SPEC, Prompt("go"))
    state = {"status": "completed", "input": input, "output": "", **state}
    part = {"type": "tool", "tool": tool, "callID": "c1", "state": state}
    line = {"type": "tool_use", "sessionID": "ses_1", "part": part}
    return list(wire.decode(json.dumps(line).encode()))


def _texts(received: list[Said]) -> list[str]:
    messages: dict[str, str] = {}
    for one in received:
        if isinstance(one, MessageChunk):
            messages[one.message_id] = messages.get(one.message_id, "") + one.text
    return list(messages.values())


def _text_file() -> File:
    return File("a.txt", "text/plain", b"hi")


@pytest.mark.parametrize(("reason", "kind"), [("length", "output_limit"), ("stop", None)])
def test_an_answer_that_the_output_limit_cut_is_a_failed_turn(
    reason: str, kind: str | None
) -> None:
    wire = OpencodeRunWire(SPEC)
    wire.launch(SPEC, Prompt("go"))
    part = {"type": "step-finish", "reason": reason, "tokens": {"input": 1, "output": 1}}
    line = {"type": "step_finish", "sessionID": "ses_1", "part": part}
    [end] = [one for one in wire.decode(json.dumps(line).encode()) if isinstance(one, TurnEnded)]
    assert (end.failure and end.failure.kind) == kind
