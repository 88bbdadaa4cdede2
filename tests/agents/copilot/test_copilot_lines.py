"""`copilot --output-format json`: its recordings, and how a turn is launched."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.copilot.copilot_playback import (
    RECORDINGS,
    SPEC,
    Said,
    encoded,
    lines,
    name,
    play,
    recordings,
)
from tillerman.agents.copilot.agent import JSON
from tillerman.agents.copilot.json_wire import CopilotJsonWire
from tillerman.core.agent import File, Prompt, SecretFile
from tillerman.core.errors import Unsupported
from tillerman.core.events import (
    AgentReady,
    Diff,
    Image,
    MessageChunk,
    Notice,
    SettingsChanged,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Unrecognized,
)
from tillerman.core.failure import Failure
from tillerman.core.session_options import with_options
from tillerman.core.wire import AttachmentBytes
from tillerman.testing.conformance import check_agent


@pytest.mark.parametrize("recording", recordings("json"), ids=name)
def test_a_recording_gives_the_events_of_its_golden_file(recording: Path) -> None:
    assert encoded(play(recording)) == (recording / "events.jsonl").read_text()


@pytest.mark.parametrize("recording", recordings("json"), ids=name)
def test_nothing_recorded_is_unrecognized_and_every_turn_ends_once(recording: Path) -> None:
    received = play(recording)
    assert [one for one in received if isinstance(one, Unrecognized)] == []
    assert sum(isinstance(one, AgentReady) for one in received) == 1
    assert isinstance(received[-1], TurnEnded)
    assert sum(isinstance(one, TurnEnded) for one in received) == 1


@pytest.mark.parametrize("recording", recordings("json"), ids=name)
def test_the_deltas_of_a_message_are_its_final_text(recording: Path) -> None:
    messages = [one["data"] for one in lines(recording) if one["type"] == "assistant.message"]
    whole = {one["messageId"]: one["content"] for one in messages if one["content"]}
    parsed: dict[str, str] = {}
    for one in play(recording):
        if isinstance(one, MessageChunk):
            parsed[one.message_id] = parsed.get(one.message_id, "") + one.text
    assert parsed == whole


def test_its_agent_conforms() -> None:
    check_agent(JSON, RECORDINGS / "json", cuts=3, streams=30)


def test_the_prompt_goes_in_by_stdin_and_not_on_the_command_line() -> None:
    text = File("a.txt", "text/plain", b"hi")
    launch = CopilotJsonWire(SPEC).launch(SPEC, Prompt("--help", (text,)))
    assert launch.argv == ["copilot", "--output-format=json", "--stream=on"]
    assert launch.stdin == b'<file name="a.txt">\nhi\n</file>\n--help'


def test_a_session_with_every_option() -> None:
    servers = {"echo": {"command": "echoer", "env": {"KEY": "v"}}}
    spec = with_options(
        SPEC, model="m", effort="high", mode="plan", resume="id", servers=servers,
        folders=(Path("/more"),), allowed_tools=("shell(git:*)",), denied_tools=("write",),
    )  # fmt: skip
    launch = CopilotJsonWire(spec).launch(spec, Prompt("go"))
    assert launch.argv[3:] == [
        "--mode=plan", "--resume=id", "--model=m", "--reasoning-effort=high",
        SecretFile("--additional-mcp-config=@", json.dumps({"mcpServers": servers}).encode()),
        "--add-dir=/more", "--allow-tool=shell(git:*)", "--deny-tool=write",
    ]  # fmt: skip


def test_an_answer_only_session_is_restricted_by_rule() -> None:
    spec = replace(SPEC, mode="ask")
    launch = CopilotJsonWire(spec).launch(spec, Prompt("go"))
    assert launch.argv[3:] == ["--deny-tool=shell", "--deny-tool=write"]


def test_the_system_prompt_precedes_the_first_prompt_only() -> None:
    spec = replace(SPEC, system="Be brief.")
    wire = CopilotJsonWire(spec)
    first = wire.launch(spec, Prompt("go")).stdin
    then = wire.launch(replace(spec, resume="id"), Prompt("go")).stdin
    assert first == b"<instructions>\nBe brief.\n</instructions>\ngo"
    assert then == b"go"


def test_an_image_is_refused_with_the_supported_way() -> None:
    image = File("a.png", "image/png", b"\x89PNG\xff")
    with pytest.raises(Unsupported, match="attachments of type image/png") as caught:
        CopilotJsonWire(SPEC).launch(SPEC, Prompt("look", (image,)))
    assert "over ACP" in caught.value.hint


def test_a_message_without_deltas_is_emitted_whole() -> None:
    assert _receive(("assistant.message", {"messageId": "m", "content": "Hi."})) == [
        MessageChunk(message_id="m", text="Hi.")
    ]


def test_a_patch_names_its_files_and_shows_what_changed_in_each() -> None:
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** Update File: b\n@@\n-x\n+y\n*** End Patch"
    diff = "diff --git a/a b/a\n@@ -0,0 +1 @@\n+x\ndiff --git a/b b/b\n@@ -1 +1 @@\n-x\n+y\n"
    received = _receive(
        (
            "tool.execution_start",
            {"toolCallId": "c", "toolName": "apply_patch", "arguments": patch},
        ),
        (
            "tool.execution_complete",
            {"toolCallId": "c", "success": True, "result": {"detailedContent": diff}},
        ),
    )
    assert received == [
        ToolStarted(
            call_id="c", tool="Edit", name="apply_patch", title="Edit `a`, `b`",
            input={"patch": patch}, paths=("a", "b"),
        ),
        ToolFinished(
            call_id="c",
            outcome="completed",
            content=(
                Diff("a", patch="@@ -0,0 +1 @@\n+x\n"),
                Diff("b", patch="@@ -1 +1 @@\n-x\n+y\n"),
            ),
        ),
    ]  # fmt: skip


def test_an_image_from_a_tool_is_stored() -> None:
    png = b"\x89PNG"
    block = {"type": "image", "mimeType": "image/png", "data": base64.b64encode(png).decode()}
    result = {"content": "see", "contents": [block]}
    received = _receive(
        ("tool.execution_complete", {"toolCallId": "c", "success": True, "result": result})
    )
    image = Image("image/png", hashlib.sha256(png).hexdigest())
    assert received == [
        AttachmentBytes(png),
        ToolFinished(call_id="c", outcome="completed", content=(Text("see"), image)),
    ]


def test_blocks_open_when_the_turn_ends_are_cancelled() -> None:
    received = _receive(
        ("tool.execution_start", {"toolCallId": "c", "toolName": "bash", "arguments": {}}),
        ("abort", {"reason": "user"}),
        ("result", {}),
    )
    assert received[1:] == [
        ToolFinished(call_id="c", outcome="cancelled"),
        TurnEnded(reason="cancelled"),
    ]


def test_a_nonzero_exit_without_a_reason_is_still_a_failure() -> None:
    why = Failure(kind="agent_failed", message="it gave no reason")
    assert _receive(("result", {})) == [TurnEnded(reason="failed", failure=why)]


@pytest.mark.parametrize(
    ("kind", "data", "event"),
    [
        (
            "session.info",
            {"infoType": "mcp", "message": "hi"},
            Notice(level="info", kind="session", text="hi"),
        ),
        (
            "session.warning",
            {"message": "careful"},
            Notice(level="warning", kind="session", text="careful"),
        ),
        (
            "session.compaction_start",
            {},
            Notice(level="info", kind="compaction", text="the conversation is compacted"),
        ),
        ("session.title_changed", {"title": "T"}, SettingsChanged(title="T")),
        ("session.model_change", {"newModel": "m"}, SettingsChanged(model="m")),
    ],
)
def test_the_reported_session_details(kind: str, data: dict[str, Any], event: object) -> None:
    assert _receive((kind, data)) == [event]


def _receive(*messages: tuple[str, dict[str, Any]]) -> list[Said]:
    wire = CopilotJsonWire(SPEC)
    wire.launch(SPEC, Prompt("go"))
    received: list[Said] = []
    for kind, data in messages:
        received += wire.decode(json.dumps({"type": kind, "data": data}).encode())
    return received
