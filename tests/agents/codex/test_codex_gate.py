"""Requests of Codex's hook, and of its approvals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.codex.codex_says import Talk, ask, report
from tillerman.agents.codex.hook_requests import KEY, config, hash_of, is_trusted
from tillerman.agents.codex.launch import opening
from tillerman.core.events import (
    Answer,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
    ToolStarted,
)
from tillerman.core.session_options import session_spec
from tillerman.hooks.protocol import HookReply

COMMAND = "item/commandExecution/requestApproval"
HASH = "sha256:eb3835f2661a7db3cd47b5061726c2fd34ed78a01aa7f70f51d69d598cbe126e"  # 0.166.0
PATCH = "*** Begin Patch\n*** Add File: /proj/a\n+x\n*** End Patch\n"


@pytest.fixture
def hooked() -> Talk:
    talk = Talk()
    talk.wire.hook("shim", 600)
    talk.begin()
    return talk


def call(name: str, input: dict[str, Any], id: str = "c1", **more: str) -> bytes:
    fields = {"hook_event_name": "PreToolUse", "cwd": "/proj", "tool_use_id": id}
    return json.dumps(fields | {"tool_name": name, "tool_input": input} | more).encode()


def approval(id: int, **params: Any) -> dict[str, Any]:
    return ask(id, COMMAND, **{"itemId": "c1", "command": "make", **params})


def test_the_hash_equals_the_one_codex_reports_for_the_same_hook() -> None:
    hook = {"type": "command", "command": "/opt/hook || exit 2", "timeout": 30}
    assert hash_of(hook) == HASH


def test_the_hook_is_registered_with_its_hash_and_reports_its_failures() -> None:
    found = config("/opt/hook || exit 2", 30)
    message = "echo 'denied by the gate' >&2; exit 2;"
    hook = {
        "type": "command",
        "command": f"( /opt/hook || exit 2 ) || {{ {message} }}",
        "timeout": 30,
    }
    state = {KEY: {"enabled": True, "trusted_hash": hash_of(hook)}}
    assert found == {"PreToolUse": [{"hooks": [hook]}], "state": state}
    _, params = opening(session_spec(cwd=Path("/proj")), found)
    assert params["config"] == {"hooks": found, "features.hooks": True}


@pytest.mark.parametrize(
    ("hook", "trusted"),
    [
        ({"key": KEY, "enabled": True, "trustStatus": "trusted"}, True),
        ({"key": KEY, "enabled": True, "trustStatus": "untrusted"}, False),
        ({"key": KEY, "enabled": False, "trustStatus": "trusted"}, False),
        ({"key": "other", "enabled": True, "trustStatus": "trusted"}, False),
    ],
)
def test_a_hook_that_codex_does_not_run_is_detected(hook: dict[str, Any], trusted: bool) -> None:
    assert is_trusted({"data": [{"hooks": [hook]}]}) is trusted


@pytest.mark.parametrize("nonsense", [None, [], {}, {"data": 3}, {"data": [{"hooks": "x"}]}])
def test_a_malformed_list_of_hooks_trusts_nothing(nonsense: object) -> None:
    assert not is_trusted(nonsense)


def test_a_command_request_names_its_call(hooked: Talk) -> None:
    assert hooked.wire.hooked("hook-1", call("Bash", {"command": "make"})) == PermissionRequested(
        request_id="hook-1",
        tool="Bash",
        title="Bash `make`",
        input={"command": "make"},
        call_id="c1",
    )


def test_viewing_an_image_is_a_file_read(hooked: Talk) -> None:
    asked = hooked.wire.hooked("hook-1", call("view_image", {"path": "/proj/p.png"}))
    assert isinstance(asked, PermissionRequested)
    assert (asked.tool, asked.paths, asked.input) == (
        "Read",
        ("/proj/p.png",),
        {"file_path": "/proj/p.png"},
    )


def test_a_patch_of_several_files_is_one_request_for_them_all(hooked: Talk) -> None:
    patch = PATCH.replace("*** End", "*** Delete File: /proj/b\n*** End")
    asked = hooked.wire.hooked("hook-1", call("apply_patch", {"command": patch}))
    assert isinstance(asked, PermissionRequested)
    assert (asked.tool, asked.paths) == ("MultiEdit", ("/proj/a", "/proj/b"))


def test_a_tool_of_a_server_is_requested_by_its_name(hooked: Talk) -> None:
    asked = hooked.wire.hooked("hook-1", call("mcp__birds__shout", {"text": "x"}))
    assert isinstance(asked, PermissionRequested)
    assert (asked.tool, asked.title) == ("MCP", "MCP `birds.shout`")


@pytest.mark.parametrize("name", ["request_user_input", "multi_agent_v1__wait", "update_plan"])
def test_calls_without_side_effects_need_no_approval(hooked: Talk, name: str) -> None:
    assert hooked.wire.hooked("hook-1", call(name, {})) == HookReply()


def test_an_unreadable_call_is_refused(hooked: Talk) -> None:
    for payload in (b"", b"{", b"[]", b"\xff"):
        reply = hooked.wire.hooked("hook-1", payload)
        assert isinstance(reply, HookReply)
        assert reply.exit == 2


def test_allowing_returns_no_output_and_the_approval_is_given_once(hooked: Talk) -> None:
    hooked.wire.hooked("hook-1", call("Bash", {"command": "make"}))
    assert hooked.wire.rule("hook-1", Answer("allow")) == HookReply()
    assert hooked.receive(approval(0)) == []
    assert hooked.sent[-1] == {"id": 0, "result": {"decision": "accept"}}
    [again] = hooked.receive(approval(1))
    assert isinstance(again, PermissionRequested)


@pytest.mark.parametrize(
    "more",
    [
        {"reason": "leave the sandbox?"},
        {"networkApprovalContext": {"host": "example.com"}},
        {"additionalPermissions": {"network": True}},
        {"kind": "writeStdin"},
        {"itemId": "c2"},
    ],
)
def test_extra_permissions_of_an_approval_are_requested(hooked: Talk, more: dict[str, Any]) -> None:
    hooked.wire.hooked("hook-1", call("Bash", {"command": "make"}))
    hooked.wire.rule("hook-1", Answer("allow"))
    [asked] = hooked.receive(approval(0, **more))
    assert isinstance(asked, PermissionRequested)


def test_changed_input_is_sent_in_codexs_format(hooked: Talk) -> None:
    hooked.wire.hooked("hook-1", call("apply_patch", {"command": PATCH}))
    changed = Answer("allow", input={"patch": PATCH.replace("+x", "+y"), "paths": ["/proj/a"]})
    reply = hooked.wire.rule("hook-1", changed)
    assert reply
    reported = json.loads(reply.stdout)["hookSpecificOutput"]
    assert (reported["permissionDecision"], reported["updatedInput"]) == (
        "allow",
        {"command": PATCH.replace("+x", "+y")},
    )


def test_a_denial_is_sent_to_the_model_and_reported_as_the_end_of_the_call(hooked: Talk) -> None:
    hooked.wire.hooked("hook-1", call("Bash", {"command": "make"}))
    reply = hooked.wire.rule("hook-1", Answer("deny", note="not today"))
    assert reply
    reported = json.loads(reply.stdout)["hookSpecificOutput"]
    assert (reported["permissionDecision"], reported["permissionDecisionReason"]) == (
        "deny",
        "not today",
    )
    run = {"source": "sessionFlags", "status": "blocked", "eventName": "preToolUse"}
    assert hooked.receive(report("hook/completed", run=run)) == [
        ToolStarted(
            call_id="c1", tool="Bash", name="Bash", title="Bash `make`", input={"command": "make"}
        ),
        ToolFinished(call_id="c1", outcome="denied"),
    ]


def test_a_request_open_when_the_turn_is_cancelled_is_reported_as_cancelled(hooked: Talk) -> None:
    hooked.wire.hooked("hook-1", call("Bash", {"command": "make"}))
    hooked.wire.cancel()
    reported = hooked.receive(report("thread/name/updated"))
    assert [getattr(event, "outcome", None) for event in reported] == [None, "cancelled"]
    assert hooked.wire.rule("hook-1", Answer("allow")) is None


def test_a_disconnected_hook_withdraws_its_request(hooked: Talk) -> None:
    hooked.wire.hooked("hook-1", call("Bash", {"command": "make"}))
    assert hooked.wire.gone("hook-1") == [
        RequestAnswered(request_id="hook-1", answer=Answer("deny"), by="withdrawn")
    ]
    assert hooked.wire.gone("hook-1") == []
    assert hooked.wire.rule("hook-1", Answer("allow")) is None
