"""Recorded hook payloads of real CLIs are decoded, decided, and answered in their format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tillerman.agents.cursor import hook_dialect as cursor
from tillerman.core.errors import UsageError
from tillerman.core.events import PermissionRequested
from tillerman.hooks.dialects import agents_with_hooks, dialect_of, hook_events, load
from tillerman.hooks.dialects.payload_codec import HookEvent, UnreadablePayload
from tillerman.hooks.protocol import HookReply

RECORDINGS = Path(__file__).parents[2] / "recordings"
OTHERS = tuple(agent for agent in agents_with_hooks() if agent not in ("cursor", "opencode"))
SAMPLES = sorted(
    (agent, path.stem) for agent in OTHERS for path in (RECORDINGS / agent / "hooks").glob("*.json")
)


def payload(agent: str, name: str) -> bytes:
    sample = json.loads((RECORDINGS / agent / "hooks" / f"{name}.json").read_text())
    return json.dumps(sample["request"]).encode()


def received(agent: str, name: str) -> HookEvent:
    return load(agent).read(name.partition("_")[0], payload(agent, name))


def reply_json(reply: HookReply) -> Any:
    assert (reply.exit, reply.stderr) == (0, b"")
    return json.loads(reply.stdout) if reply.stdout else None


@pytest.mark.parametrize(("agent", "name"), SAMPLES)
def test_recorded_payloads_are_decoded(agent: str, name: str) -> None:
    event = received(agent, name)
    assert not isinstance(event, UnreadablePayload)
    assert isinstance(event, hook_events.CommonHookEvent)
    assert (event.event, event.cwd) == (name.partition("_")[0], "/proj")
    assert event.session_id


@pytest.mark.parametrize("agent", OTHERS)
def test_every_call_was_recorded_at_its_gate(agent: str) -> None:
    (gate,) = load(agent).CALLS
    assert gate in load(agent).GATES
    assert [n for a, n in SAMPLES if a == agent and n.startswith(f"{gate}_")]


REQUESTS = {
    ("claude", "PreToolUse_Bash"): ("Bash", (), "Bash `exit 3`"),
    ("claude", "PreToolUse_Read"): ("Read", ("/proj/made.txt",), "Read `made.txt`"),
    ("claude", "PreToolUse_Write"): ("Write", ("/proj/made.txt",), "Write `made.txt`"),
    ("claude", "PreToolUse_Edit"): ("Edit", ("/proj/made.txt",), "Edit `made.txt`"),
    ("claude", "PreToolUse_WebFetch"): ("WebFetch", (), "Fetch `http://127.0.0.1:9/x`"),
    ("claude", "PreToolUse_mcp__tiny__shout"): ("MCP", (), "MCP `tiny.shout`"),
    ("claude", "PermissionRequest_WebFetch"): ("WebFetch", (), "Fetch `http://127.0.0.1:9/x`"),
    ("codex", "PreToolUse_Bash"): ("Bash", (), "Bash `exit 3`"),
    ("codex", "PreToolUse_apply_patch"): ("Edit", ("/proj/made.txt",), "Edit `/proj/made.txt`"),
    ("codex", "PreToolUse_mcp__tiny__shout"): ("MCP", (), "MCP `tiny.shout`"),
    ("copilot", "preToolUse_bash"): ("Bash", (), "Bash `exit 3`"),
    ("copilot", "preToolUse_create"): ("Write", ("/proj/made.txt",), "Write `made.txt`"),
    ("copilot", "preToolUse_edit"): ("Edit", ("/proj/made.txt",), "Edit `made.txt`"),
    ("copilot", "preToolUse_view"): ("Read", ("/proj/made.txt",), "Read `made.txt`"),
    ("copilot", "preToolUse_grep"): ("Grep", ("/proj",), "Search `x` in `/proj`"),
    ("copilot", "preToolUse_glob"): ("Glob", ("/proj",), "Find `*` in `/proj`"),
    ("copilot", "preToolUse_web_fetch"): ("WebFetch", (), "Fetch `http://127.0.0.1:9/x`"),
    ("copilot", "preToolUse_tiny-shout"): ("tiny-shout", (), "tiny-shout"),
    ("copilot", "permissionRequest_bash"): ("Bash", (), "Bash `exit 3`"),
    ("copilot", "permissionRequest_edit"): ("Edit", ("/proj/made.txt",), "Edit `made.txt`"),
    ("copilot", "permissionRequest_tiny-shout"): ("tiny/shout", (), "tiny/shout"),
    ("gemini", "BeforeTool_run_shell_command"): ("Bash", (), "Bash `exit 3`"),
    ("gemini", "BeforeTool_write_file"): ("Write", ("/proj/made.txt",), "Write `made.txt`"),
    ("gemini", "BeforeTool_replace"): ("Edit", ("/proj/made.txt",), "Edit `made.txt`"),
    ("gemini", "BeforeTool_read_file"): ("Read", ("/proj/made.txt",), "Read `made.txt`"),
    ("gemini", "BeforeTool_list_directory"): ("LS", ("/proj",), "List `/proj`"),
    ("gemini", "BeforeTool_grep_search"): ("Grep", ("/proj",), "Search `x` in `/proj`"),
    ("gemini", "BeforeTool_web_fetch"): ("WebFetch", (), "Fetch ``"),
    ("gemini", "BeforeTool_write_todos"): ("TodoWrite", (), "Update the plan"),
    ("gemini", "BeforeTool_mcp_tiny_shout"): ("MCP", (), "MCP `tiny.shout`"),
    ("qwen", "PreToolUse_run_shell_command"): ("Bash", (), "Bash `exit 3`"),
    ("qwen", "PreToolUse_write_file"): ("Write", ("/proj/made.txt",), "Write `made.txt`"),
    ("qwen", "PreToolUse_edit"): ("Edit", ("/proj/made.txt",), "Edit `made.txt`"),
    ("qwen", "PreToolUse_read_file"): ("Read", ("/proj/made.txt",), "Read `made.txt`"),
    ("qwen", "PreToolUse_grep_search"): ("Grep", ("/proj",), "Search `x` in `/proj`"),
    ("qwen", "PreToolUse_web_fetch"): ("WebFetch", (), "Fetch `http://127.0.0.1:9/x`"),
    ("qwen", "PreToolUse_todo_write"): ("TodoWrite", (), "Update the plan"),
    ("qwen", "PreToolUse_mcp__tiny__shout"): ("MCP", (), "MCP `tiny.shout`"),
}


@pytest.mark.parametrize(("agent", "name"), SAMPLES)
def test_a_call_is_requested_in_the_common_vocabulary(agent: str, name: str) -> None:
    request = load(agent).request_of(received(agent, name), "r1")
    messages = request and (request.tool, request.paths, request.title)
    assert messages == REQUESTS.get((agent, name))


def test_all_fields_of_a_request() -> None:
    assert load("qwen").request_of(
        received("qwen", "PreToolUse_edit"), "r7"
    ) == PermissionRequested(
        request_id="r7",
        tool="Edit",
        title="Edit `made.txt`",
        input={"file_path": "/proj/made.txt", "old_string": "x", "new_string": "y"},
        paths=("/proj/made.txt",),
        call_id="c9",
    )


def test_a_patch_of_codex_names_all_its_files() -> None:
    patch = (
        "*** Begin Patch\n*** Add File: a.txt\n+x\n*** Update File: b.txt\n"
        "*** Move to: ../out/c.txt\n@@\n-1\n+2\n*** Delete File: .git/config\n*** End Patch\n"
    )
    given = {"tool_name": "apply_patch", "tool_input": {"command": patch}, "tool_use_id": "c1"}
    codex = load("codex")
    assert codex.request_of(
        codex.read("PreToolUse", json.dumps(given).encode()), "r"
    ) == PermissionRequested(
        request_id="r",
        tool="Edit",
        title="Edit `a.txt`, `b.txt`, `../out/c.txt` +1 more files",
        input={"patch": patch, "paths": ["a.txt", "b.txt", "../out/c.txt", ".git/config"]},
        paths=("a.txt", "b.txt", "../out/c.txt", ".git/config"),
        call_id="c1",
    )


# -- replies ---------------------------------------------------------------------------------------

GATES = {
    "claude": "PreToolUse_Write",
    "codex": "PreToolUse_apply_patch",
    "copilot": "preToolUse_create",
    "gemini": "BeforeTool_write_file",
    "qwen": "PreToolUse_write_file",
}
NEW = {"file_path": "/proj/other.txt"}


def nested(decision: str, reason: str, **more: Any) -> dict[str, Any]:
    parsed = {"permissionDecision": decision, "permissionDecisionReason": reason}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **parsed, **more}}


ALLOWED: dict[str, Any] = {
    "claude": nested("allow", "allowed by tillerman"),
    "codex": None,
    "copilot": {"permissionDecision": "allow"},
    "gemini": {"decision": "allow"},
    "qwen": nested("allow", "allowed by tillerman"),
}
DENIED: dict[str, Any] = {
    "claude": nested("deny", "no"),
    "codex": nested("deny", "no"),
    "copilot": {"permissionDecision": "deny", "permissionDecisionReason": "no"},
    "gemini": {"decision": "deny", "reason": "no"},
    "qwen": nested("deny", "no"),
}
ASKED: dict[str, Any] = {
    "claude": nested("ask", "no"),
    "codex": DENIED["codex"],
    "copilot": {"permissionDecision": "ask", "permissionDecisionReason": "no"},
    "gemini": {"decision": "ask", "reason": "no"},
    "qwen": nested("ask", "no"),
}
CHANGED: dict[str, Any] = {
    "claude": nested("allow", "allowed by tillerman", updatedInput=NEW),
    "codex": nested("allow", "allowed by tillerman", updatedInput=NEW),
    "copilot": {"permissionDecision": "allow", "modifiedArgs": NEW},
    "gemini": {
        "decision": "allow",
        "hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": NEW},
    },
}


@pytest.mark.parametrize("agent", OTHERS)
def test_a_decision_is_in_the_format_of_the_cli(agent: str) -> None:
    one, event = load(agent), received(agent, GATES[agent])
    assert reply_json(one.allow(event)) == ALLOWED[agent]
    assert reply_json(one.deny(event, "no")) == DENIED[agent]
    assert reply_json(one.ask(event, "no")) == ASKED[agent]
    assert one.nothing(event) == HookReply()


@pytest.mark.parametrize("agent", CHANGED)
def test_a_changed_input_goes_with_the_allow(agent: str) -> None:
    one, event = load(agent), received(agent, GATES[agent])
    assert event.event in one.CHANGES_INPUT
    assert reply_json(one.allow(event, input=NEW)) == CHANGED[agent]


def test_qwen_ignores_a_changed_input_and_so_it_is_never_offered() -> None:
    assert not load("qwen").CHANGES_INPUT


def test_a_question_that_the_cli_is_about_to_ask_is_answered() -> None:
    claude, asked = load("claude"), received("claude", "PermissionRequest_WebFetch")
    specific = {"hookEventName": "PermissionRequest"}
    assert reply_json(claude.allow(asked)) == {
        "hookSpecificOutput": {**specific, "decision": {"behavior": "allow"}}
    }
    assert reply_json(claude.deny(asked, "no")) == {
        "hookSpecificOutput": {**specific, "decision": {"behavior": "deny", "message": "no"}}
    }
    assert claude.ask(asked, "no") == HookReply()
    copilot, asked = load("copilot"), received("copilot", "permissionRequest_bash")
    assert reply_json(copilot.allow(asked)) == {"behavior": "allow"}
    assert reply_json(copilot.deny(asked, "no")) == {"behavior": "deny", "message": "no"}


@pytest.mark.parametrize(
    ("agent", "name", "said"),
    [
        ("claude", "Stop", {"decision": "block", "reason": "more"}),
        ("codex", "Stop", {"decision": "block", "reason": "more"}),
        ("qwen", "Stop", {"decision": "block", "reason": "more"}),
        ("copilot", "agentStop", {"decision": "block", "reason": "more"}),
        ("gemini", "AfterAgent", {"decision": "deny", "reason": "more"}),
        ("claude", "SessionEnd", None),
    ],
)
def test_the_end_of_a_turn_can_be_postponed(agent: str, name: str, said: Any) -> None:
    assert reply_json(load(agent).go_on(received(agent, name), "more")) == said


@pytest.mark.parametrize(
    ("agent", "name", "said"),
    [
        (
            "claude",
            "SessionStart",
            {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "x"}},
        ),
        (
            "gemini",
            "AfterTool_read_file",
            {"hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "x"}},
        ),
        ("copilot", "sessionStart", {"additionalContext": "x"}),
        ("qwen", "Stop", None),
    ],
)
def test_context_is_given_where_the_cli_supports_it(agent: str, name: str, said: Any) -> None:
    assert reply_json(load(agent).context(received(agent, name), "x")) == said


@pytest.mark.parametrize("agent", agents_with_hooks())
@pytest.mark.parametrize(
    "given", [b"", b"null", b'{"tool_name":[]}', b'{"tool_name":"x"}', b"\xff"]
)
def test_an_unreadable_gate_event_is_refused(agent: str, given: bytes) -> None:
    one = load(agent)
    event = one.read(one.CALLS[0], given)
    assert isinstance(event, UnreadablePayload)
    for reply in (one.allow(event), one.deny(event, "no"), one.ask(event, "no")):
        assert (reply.exit, reply.stdout) == (2, b"")
        assert reply.stderr  # codex takes no notice of exit 2 without


def test_arguments_in_a_string_are_read_as_the_object_they_are() -> None:
    one = load("copilot")
    event = one.read("preToolUse", b'{"toolName":"bash","toolArgs":"{\\"command\\":\\"ls\\"}"}')
    assert event == hook_events.BeforeTool(
        event="preToolUse", tool_name="bash", tool_input={"command": "ls"}
    )
    assert isinstance(one.read("preToolUse", b'{"toolName":"x","toolArgs":"["}'), UnreadablePayload)


def test_the_vocabulary_of_cursor_is_understood_for_every_agent() -> None:
    assert dialect_of("claude", b'{"cursor_version": "2026.09.28"}') is cursor
    inner = b'{"tool_name": "mcp__x__y", "tool_input": {"cursor_version": 1}}'
    assert dialect_of("claude", inner) is load("claude")
    assert dialect_of("claude", b"garbage") is load("claude")


def test_the_plugin_of_opencode_is_answered_in_its_own_format() -> None:
    one = load("opencode")
    given = {
        "cwd": "/proj",
        "session_id": "s",
        "tool_name": "write",
        "tool_use_id": "c1",
        "tool_input": {"filePath": "/proj/made.txt", "content": "x"},
    }
    event = one.read("tool.execute.before", json.dumps(given).encode())
    assert one.request_of(event, "r") == PermissionRequested(
        request_id="r",
        tool="Write",
        title="Write `made.txt`",
        input={"filePath": "/proj/made.txt", "content": "x"},
        paths=("/proj/made.txt",),
        call_id="c1",
    )
    assert reply_json(one.allow(event)) == {"decision": "allow"}
    assert reply_json(one.allow(event, input=NEW)) == {"decision": "allow", "input": NEW}
    assert reply_json(one.deny(event, "no")) == {"decision": "deny", "reason": "no"}
    assert reply_json(one.ask(event, "no")) == {"decision": "deny", "reason": "no"}


def test_an_agent_without_hooks_is_reported_by_name() -> None:
    with pytest.raises(UsageError, match="does not support hooks of mock"):
        load("mock")


# -- their files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "file", "entry"),
    [
        ("claude", "settings.local.json", ("command", "timeout", 60)),
        ("codex", "hooks.json", ("command", "timeout", 60)),
        ("qwen", "settings.json", ("command", "timeout", 60_000)),
        ("gemini", "settings.json", ("command", "timeout", 60_000)),
    ],
)
def test_a_config_has_limits_in_the_unit_of_the_cli(
    agent: str, file: str, entry: tuple[str, str, int]
) -> None:
    (gate,) = load(agent).CALLS
    command, limit, time = entry
    made = load(agent).config({gate: "shim || exit 2", "NoSuchEvent": "x"}, timeout=60)
    hook = {"type": "command", command: "shim || exit 2", limit: time}
    assert {name: json.loads(content) for name, content in made.items()} == {
        file: {"hooks": {gate: [{"hooks": [hook]}]}}
    }


def test_the_config_of_copilot_is_flat() -> None:
    made = load("copilot").config({"preToolUse": "shim", "sessionEnd": "-shim"}, timeout=60)
    assert {name: json.loads(content) for name, content in made.items()} == {
        "tillerman.json": {
            "version": 1,
            "hooks": {
                "preToolUse": [{"type": "command", "bash": "shim", "timeoutSec": 60}],
                "sessionEnd": [{"type": "command", "bash": "-shim", "timeoutSec": 10}],
            },
        }
    }
