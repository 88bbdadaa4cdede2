"""Every sample of Cursor's hooks is decoded completely, and answered in Cursor's format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tillerman.agents.cursor import hook_dialect as cursor
from tillerman.agents.cursor.hooks import hook_payloads as events
from tillerman.core.events import PermissionRequested
from tillerman.hooks.dialects.payload_codec import HookEvent, UnreadablePayload
from tillerman.hooks.protocol import HookReply

SAMPLES = Path(__file__).parents[2] / "recordings" / "cursor" / "hooks"
NAMES = sorted(path.stem for path in SAMPLES.glob("*.json"))


def sample(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text())
    return found


def told(name: str) -> HookEvent:
    event = name.partition("_")[0]
    return cursor.read(event, json.dumps(sample(name)["request"]).encode())


def test_there_is_a_sample_of_every_event() -> None:
    assert {name.partition("_")[0] for name in NAMES} == set(cursor.EVENTS)
    assert len(cursor.EVENTS) == 21


@pytest.mark.parametrize("name", NAMES)
def test_no_key_of_a_sample_is_lost(name: str) -> None:
    event = told(name)
    assert not isinstance(event, UnreadablePayload)
    assert event.rest == {}
    request = sample(name)["request"]
    built = json.loads(msgspec.json.encode(event))
    assert built.pop("event") == request.pop("hook_event_name")
    for edit, given in zip(built.get("edits", ()), request.get("edits", ()), strict=True):
        given |= {key: value for key, value in edit.items() if value is None}
    assert {key: built[key] for key in request} == request


@pytest.mark.parametrize("name", NAMES)
def test_the_reply_of_a_sample_is_one_of_the_typed_ones(name: str) -> None:
    given = sample(name)["reply"]
    if sample(name).get("exit"):
        return
    kind = cursor.EVENTS[name.partition("_")[0]].read
    typed = msgspec.convert(given, kind)
    assert json.loads(msgspec.json.encode(typed)) == given


def dialect_of(reply: HookReply) -> Any:
    assert (reply.exit, reply.stderr) == (0, b"")
    return json.loads(reply.stdout) if reply.stdout else {}


@pytest.mark.parametrize(
    ("name", "reply"),
    [
        ("preToolUse", cursor.allow(told("preToolUse"))),
        ("beforeShellExecution", cursor.allow(told("beforeShellExecution"))),
        ("beforeMCPExecution", cursor.allow(told("beforeMCPExecution"))),
        ("beforeTabFileRead", cursor.allow(told("beforeTabFileRead"))),
        ("subagentStart", cursor.allow(told("subagentStart"))),
        ("beforeSubmitPrompt", cursor.allow(told("beforeSubmitPrompt"))),
        (
            "preToolUse_rewrite",
            cursor.allow(
                told("preToolUse_rewrite"),
                input={"command": "npm ci", "cwd": "", "timeout": 30000},
            ),
        ),
        (
            "beforeReadFile",
            cursor.deny(told("beforeReadFile"), "Secrets are not sent to the model."),
        ),
        (
            "subagentStart_deny",
            cursor.deny(told("subagentStart_deny"), "Only explore subagents are allowed."),
        ),
        (
            "beforeSubmitPrompt_block",
            cursor.deny(told("beforeSubmitPrompt_block"), "The prompt holds a secret."),
        ),
        ("stop_followup", cursor.go_on(told("stop_followup"), "Now run the tests.")),
        ("postToolUse", cursor.context(told("postToolUse"), "Coverage is 91 %.")),
        (
            "sessionStart",
            cursor.context(
                told("sessionStart"),
                "Keep changes small and run the tests.",
                environment={"TILLERMAN_SESSION": "s1"},
            ),
        ),
        ("afterFileEdit", cursor.nothing(told("afterFileEdit"))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_reply_reads_as_in_the_sample(name: str, reply: HookReply) -> None:
    assert dialect_of(reply) == sample(name)["reply"]


def test_a_deny_is_sent_to_the_person_and_the_agent() -> None:
    assert dialect_of(cursor.deny(told("preToolUse_deny"), "no force")) == {
        "permission": "deny",
        "user_message": "no force",
        "agent_message": "no force",
    }


def interactive(name: str) -> HookEvent:
    request = sample(name)["request"] | {"transcript_path": "/t", "generation_id": "other"}
    return cursor.read(name.partition("_")[0], json.dumps(request).encode())


def test_it_asks_by_itself_about_commands_where_a_person_is_present() -> None:
    assert dialect_of(cursor.ask(interactive("beforeShellExecution_ask"), "Open it?")) == {
        "permission": "ask",
        "user_message": "Open it?",
    }
    before = cursor.ask(interactive("preToolUse"), "Run it?")
    assert before == HookReply()  # the command's own event follows, and asks


@pytest.mark.parametrize("name", ["beforeShellExecution_ask", "preToolUse", "beforeMCPExecution"])
def test_an_ask_is_a_deny_where_no_person_is_present(name: str) -> None:
    assert dialect_of(cursor.ask(told(name), "why"))["permission"] == "deny"


@pytest.mark.parametrize("name", ["preToolUse_read", "preToolUse_edit_step2", "beforeReadFile"])
def test_an_ask_is_a_deny_where_the_event_cannot_ask(name: str) -> None:
    assert dialect_of(cursor.ask(interactive(name), "why"))["permission"] == "deny"


def test_a_request_is_reported_in_the_common_vocabulary() -> None:
    assert cursor.request_of(told("preToolUse_edit_step2"), "r1") == PermissionRequested(
        request_id="r1",
        tool="Write",
        title="Write `a.txt`",
        input={"file_path": "/proj/a.txt", "content": "hello\n"},
        paths=("/proj/a.txt",),
        call_id="call-bac41ffd-0c1d-4e2f-8a3b-0f1e2d3c4b5a-0/fc_e0112233-7d1a-92c4-8e05-44556677_0",
    )
    assert cursor.request_of(told("beforeShellExecution"), "r2") == PermissionRequested(
        request_id="r2",
        tool="Bash",
        title="Bash `npm install left-pad`",
        input={"command": "npm install left-pad", "cwd": "/proj"},
    )
    assert cursor.request_of(told("beforeMCPExecution_url"), "r3") == PermissionRequested(
        request_id="r3",
        tool="MCP",
        title="MCP `search`",
        input={"q": "greet"},
        reason="https://mcp.example.com/mcp",
    )
    assert cursor.request_of(told("beforeReadFile"), "r4") == PermissionRequested(
        request_id="r4",
        tool="Read",
        title="Read `.env`",
        input={"file_path": "/proj/.env"},
        paths=("/proj/.env",),
    )


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("preToolUse", "Bash"),
        ("preToolUse_read", "Read"),
        ("preToolUse_mcp", "MCP"),
        ("preToolUse_exit2", "Delete"),
        ("subagentStart", "Task"),
        ("beforeTabFileRead", "Read"),
    ],
)
def test_each_tool_maps_to_the_common_vocabulary(name: str, tool: str) -> None:
    request = cursor.request_of(told(name), "r")
    assert request is not None
    assert request.tool == tool


def test_every_gate_before_a_call_gives_a_request() -> None:
    assert {name for name in NAMES if cursor.request_of(told(name), "r")} == {
        name for name in NAMES if name.partition("_")[0] in cursor.GATES - {"beforeSubmitPrompt"}
    }


def test_an_unreadable_gate_event_is_refused() -> None:
    for payload in (b"", b"[]", b"{", b'{"tool_name": 3, "tool_input": {}}', b'{"tool_name":"X"}'):
        event = cursor.read("preToolUse", payload)
        assert isinstance(event, UnreadablePayload)
        assert cursor.allow(event).exit == 2
        assert cursor.deny(event, "no") == HookReply(stderr=b"tillerman: no\n", exit=2)


def test_an_unknown_event_is_refused() -> None:
    event = cursor.read("beforeTeleport", b'{"hook_event_name": "beforeTeleport"}')
    assert event == UnreadablePayload(
        event="beforeTeleport",
        rest={"hook_event_name": "beforeTeleport"},
        why="unknown Cursor event 'beforeTeleport'",
    )


def test_a_byte_order_mark_and_unknown_keys_are_accepted() -> None:
    payload = b'\xef\xbb\xbf{"tool_name":"Shell","tool_input":{"command":"ls"},"aura":7,"model":3}'
    assert cursor.read("preToolUse", payload) == events.PreToolUse(
        event="preToolUse", tool_name="Shell", tool_input={"command": "ls"}, rest={"aura": 7}
    )


def test_cursor_names_its_event_even_where_it_runs_a_hook_of_claude() -> None:
    payload = json.dumps(sample("preToolUse")["request"]).encode()
    assert cursor.read("PreToolUse", payload) == told("preToolUse")


# -- its files -------------------------------------------------------------------------------------


def test_a_plugin_has_the_shape_of_the_sample() -> None:
    shape = json.loads((SAMPLES / "config" / "hooks.headless.json").read_text())
    commands = dict.fromkeys(shape["hooks"], "/opt/tillerman/bin/tillerman-hook cursor")
    files = cursor.config(commands, "2026.09.28-a1b2c3d", timeout=60)
    assert json.loads(files["hooks/hooks.json"]) == shape
    plugin = json.loads(files[".cursor-plugin/plugin.json"])
    assert plugin["hooks"] == "./hooks/hooks.json"


@pytest.mark.parametrize(
    ("version", "left_out"),
    [
        ("2026.09.28-a1b2c3d", set()),
        ("2027.01.01", set()),
        ("2026.07.16-xyz", {"workspaceOpen"}),
        (None, {"workspaceOpen"}),
        ("nonsense", {"workspaceOpen"}),
    ],
)
def test_a_name_that_the_version_lacks_is_left_out(version: str | None, left_out: set[str]) -> None:
    commands = dict.fromkeys([*cursor.EVENTS, "notification"], "x")
    hooks = json.loads(cursor.config(commands, version)["hooks/hooks.json"])["hooks"]
    assert set(hooks) == set(cursor.EVENTS) - left_out


def test_the_first_cursor_with_hooks_gets_the_six_it_knew() -> None:
    assert cursor.known("2025.10.02") == {
        "beforeSubmitPrompt",
        "beforeShellExecution",
        "beforeMCPExecution",
        "beforeReadFile",
        "afterFileEdit",
        "stop",
    }


def test_every_gate_fails_closed() -> None:
    assert {
        name for name in cursor.EVENTS if "failClosed" in cursor.entry(name, "x", timeout=60)
    } == (cursor.GATES)
