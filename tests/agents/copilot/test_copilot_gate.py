"""What Copilot's hook asks before a call, and the answer that Copilot gets."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from tests.agents.acp.acp_far_side import Talk
from tests.agents.copilot.copilot_playback import SPEC
from tillerman.agents.acp.agent import AcpAgent
from tillerman.agents.copilot.dialect import ROW, CopilotDialect
from tillerman.agents.copilot.wire import CopilotWire
from tillerman.core.agent import SecretFolder, SessionSpec
from tillerman.core.events import (
    Answer,
    PermissionRequested,
    RequestAnswered,
    ToolStarted,
    TurnEnded,
)
from tillerman.core.session_options import with_options
from tillerman.core.wire import Wire
from tillerman.hooks.protocol import HookReply

TOUCH = {"command": "touch x", "description": "a command"}
CALL = {"toolCallId": "c1", "title": "a command", "kind": "execute", "rawInput": TOUCH}
OUT = {"path": "/etc/hosts"}
READ = {"toolCallId": "c2", "title": "Viewing /etc/hosts", "kind": "read", "rawInput": OUT}


class _Agent(AcpAgent):
    def _wire(self, spec: SessionSpec) -> Wire:
        return CopilotWire(self.dialect, with_options(spec, servers={"tiny": {"command": "tiny"}}))


def _connection() -> tuple[Talk, CopilotWire]:
    """A connection with an open session and a first prompt."""
    row = replace(ROW, modes={})
    talk = Talk(SPEC, row, CopilotDialect)
    wire = _Agent(row, CopilotDialect).wire(SPEC)
    assert isinstance(wire, CopilotWire)
    talk.wire, talk.sent = wire, list(wire.greet())
    talk.prompt()
    talk.answers({"protocolVersion": 1, "agentCapabilities": {}})
    talk.answers({"sessionId": "s1"})
    talk.received.clear()
    return talk, wire


def _payload(name: str, input: Any) -> bytes:
    fields = {"sessionId": "s1", "cwd": "/proj", "toolName": name, "toolArgs": input}
    return json.dumps(fields).encode()


def _reply_json(reply: HookReply | None) -> Any:
    assert reply is not None
    return json.loads(reply.stdout)


def test_the_request_belongs_to_the_open_call_with_the_same_input() -> None:
    talk, wire = _connection()
    talk.send_update("tool_call", **{**CALL, "toolCallId": "c0", "rawInput": {"command": "ls"}})
    [started] = talk.send_update("tool_call", **CALL, status="pending")
    assert isinstance(started, ToolStarted)
    assert wire.hooked("hook-1", _payload("bash", TOUCH)) == PermissionRequested(
        request_id="hook-1",
        tool="Bash",
        title="Bash `touch x`",
        input=TOUCH,
        call_id="c1",
    )


def test_an_answer_is_sent_to_the_hook_in_its_own_format() -> None:
    _, wire = _connection()
    for ask, answer, reported in (
        ("hook-1", Answer("allow"), {"permissionDecision": "allow"}),
        (
            "hook-2",
            Answer("deny", note="herons nest there"),
            {"permissionDecision": "deny", "permissionDecisionReason": "herons nest there"},
        ),
        (
            "hook-3",
            Answer("allow", input={"command": "true"}),
            {"permissionDecision": "allow", "modifiedArgs": {"command": "true"}},
        ),
    ):
        wire.hooked(ask, _payload("bash", TOUCH))
        assert _reply_json(wire.rule(ask, answer)) == reported
        assert wire.rule(ask, answer) is None


def test_a_tool_of_a_server_has_its_display_name() -> None:
    _, wire = _connection()
    asked = wire.hooked("hook-1", _payload("tiny-shout", {"text": "hi"}))
    assert isinstance(asked, PermissionRequested)
    assert (asked.tool, asked.title) == ("MCP", "MCP `tiny.shout`")


def test_a_call_allowed_by_the_hook_is_not_requested_again_over_acp() -> None:
    talk, wire = _connection()
    talk.send_update("tool_call", **READ, status="pending")
    wire.hooked("hook-1", _payload("view", OUT))
    wire.rule("hook-1", Answer("allow"))
    assert (
        talk.request_permission(7, {**READ, "title": "Access paths outside trusted directories"})
        == []
    )
    chosen = {"outcome": {"outcome": "selected", "optionId": "the-allow_once"}}
    assert talk.sent[-1] == {"jsonrpc": "2.0", "id": 7, "result": chosen}


def test_a_call_reported_after_the_hook_allowed_it_is_not_requested_again_either() -> None:
    talk, wire = _connection()
    asked = wire.hooked("hook-1", _payload("view", OUT))
    assert isinstance(asked, PermissionRequested)
    assert (asked.call_id, asked.paths) == (None, ("/etc/hosts",))
    wire.rule("hook-1", Answer("allow"))
    talk.send_update("tool_call", **READ, status="pending")
    assert talk.request_permission(7, READ) == []


def test_a_call_the_hook_did_not_request_is_requested_over_acp() -> None:
    talk, wire = _connection()
    talk.send_update("tool_call", **CALL, status="pending")
    wire.hooked("hook-1", _payload("bash", TOUCH))
    wire.rule("hook-1", Answer("allow"))
    _, asked = talk.request_permission(
        7, {**CALL, "toolCallId": "c9", "rawInput": {"command": "rm x"}}
    )
    assert isinstance(asked, PermissionRequested)
    assert asked.request_id == "7"


def test_an_allowed_call_expires_with_its_turn() -> None:
    talk, wire = _connection()
    talk.send_update("tool_call", **READ, status="pending")
    wire.hooked("hook-1", _payload("view", OUT))
    wire.rule("hook-1", Answer("allow"))
    assert talk.answers({"stopReason": "end_turn"})[-1] == TurnEnded(reason="completed")
    talk.prompt()
    assert [
        one for one in talk.request_permission(7, READ) if isinstance(one, PermissionRequested)
    ] != []


def test_a_disconnected_hook_withdraws_its_request() -> None:
    _, wire = _connection()
    wire.hooked("hook-1", _payload("bash", TOUCH))
    withdrawn = RequestAnswered(request_id="hook-1", answer=Answer("deny"), by="withdrawn")
    assert wire.gone("hook-1") == [withdrawn]
    assert wire.gone("hook-1") == []


def test_a_payload_without_a_call_is_refused() -> None:
    _, wire = _connection()
    for payload in (b"", b"[]", b"{}", _payload("bash", 3), b'{"toolName": 1, "toolArgs": {}}'):
        refused = wire.hooked("hook-1", payload)
        assert isinstance(refused, HookReply)
        assert (refused.exit, refused.stdout) == (2, b"")


def test_the_plugin_is_on_the_command_line_in_files_of_the_session() -> None:
    _, wire = _connection()
    wire.plugin = {"plugin.json": b"{}"}
    assert wire.launch(SPEC, None).argv[-1] == SecretFolder("--plugin-dir=", {"plugin.json": b"{}"})
    assert wire.launch(SPEC, None).env == {"COPILOT_ALLOW_ALL": "false"}
