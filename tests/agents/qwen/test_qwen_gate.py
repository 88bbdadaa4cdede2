"""Qwen Code is configured to request approval before every call, beside the user's settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.agents.acp.acp_far_side import opened
from tillerman.agents.qwen import ask_policy
from tillerman.agents.qwen.agent import agent
from tillerman.agents.qwen.dialect import QwenDialect
from tillerman.agents.qwen.launch import GATE, ROW, acp, two_way
from tillerman.core.agent import SecretFile
from tillerman.core.errors import Unsupported
from tillerman.core.events import Answer, PermissionRequested
from tillerman.core.permission.actions import server_of
from tillerman.core.session_options import session_spec
from tillerman.testing.test_host import PlainHost

PROJ = Path("/proj")
SETTINGS, DEFAULTS = "QWEN_CODE_SYSTEM_SETTINGS_PATH", "QWEN_CODE_SYSTEM_DEFAULTS_PATH"


def variables(folder: Path, **more: str) -> Any:
    return ({"HOME": str(folder)} | more).get


def request(kind: str, input: dict[str, Any], title: str = "x") -> PermissionRequested:
    """A request of older versions, without the tool's name."""
    call = {"toolCallId": "c1", "title": title, "kind": kind, "rawInput": input}
    reported = opened(row=ROW, dialect=QwenDialect).request_permission(1, call)
    [asked] = [event for event in reported if isinstance(event, PermissionRequested)]
    return asked


def test_the_rules_are_set_on_both_transports() -> None:
    spec = session_spec(cwd=PROJ)

    assert acp(spec).env[SETTINGS] == two_way(spec).env[SETTINGS] == GATE


def test_system_settings_are_preserved_and_our_rules_added(tmp_path: Path) -> None:
    system, defaults = tmp_path / "settings.json", tmp_path / "system-defaults.json"
    system.write_text(
        '{"permissions": {"ask": ["glob", "Ours"], "allow": ["ls"]}, // ours\n'
        ' "ui": {"theme": "x"}}'
    )
    defaults.write_text("{}")
    options = ask_policy.system_files(variables(tmp_path, **{SETTINGS: str(system)}))

    rules = json.loads(Path(GATE).read_text())["permissions"]
    merged = json.loads(options[SETTINGS])
    assert merged["ui"] == {"theme": "x"}
    assert merged["permissions"]["allow"] == ["ls"]
    assert merged["permissions"]["ask"][:2] == ["glob", "Ours"]
    assert set(merged["permissions"]["ask"]) == {"Ours", *rules["ask"]}
    assert merged["permissions"]["deny"] == rules["deny"]
    assert options[DEFAULTS] == str(defaults)
    env = acp(session_spec(cwd=PROJ, options=options)).env
    assert env[SETTINGS] == SecretFile("", options[SETTINGS].encode())
    assert env[DEFAULTS] == str(defaults)


def test_without_system_settings_only_ours_exist(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none.json")

    assert ask_policy.system_files(variables(tmp_path, **{SETTINGS: nowhere})) == {}


async def test_unreadable_system_settings_are_refused_instead_of_hidden(
    tmp_path: Path,
) -> None:
    system = tmp_path / "system.json"
    system.write_text("{")

    async with PlainHost.open(tmp_path, env={SETTINGS: str(system)}) as host:
        with pytest.raises(Unsupported, match="system settings that cannot be read"):
            await agent.open(session_spec(cwd=tmp_path), host)


async def test_a_hook_that_could_allow_calls_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".qwen").mkdir()
    hooks = {"hooks": {"PermissionRequest": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    (tmp_path / ".qwen" / "settings.json").write_text(json.dumps(hooks))

    async with PlainHost.open(tmp_path) as host:
        with pytest.raises(Unsupported, match="answers permission requests itself"):
            await agent.open(session_spec(cwd=tmp_path), host)


@pytest.mark.parametrize(
    ("kind", "input", "tool"),
    [
        ("read", {"file_path": "/proj/a"}, "Read"),
        ("search", {"path": "/proj"}, "LS"),
        ("search", {"pattern": "x", "path": "/proj"}, "Grep"),
        ("fetch", {"url": "https://a.example", "prompt": "x"}, "WebFetch"),
        ("execute", {"command": "ls"}, "Bash"),
        ("other", {"text": "x"}, "MCP"),
    ],
)
def test_a_request_without_a_name_is_identified_by_its_input(
    kind: str, input: dict[str, Any], tool: str
) -> None:
    asked = request(kind, input)

    assert (asked.tool, asked.input) == (tool, input)


def test_a_servers_tool_that_declares_itself_read_only_is_not_a_read() -> None:
    asked = request("read", {"path": "/proj"}, '{"path":"/proj"}')

    assert (asked.tool, server_of(asked)) == ("MCP", None)


def test_a_tool_called_through_another_is_decided_by_its_own_name() -> None:
    talk = opened(row=ROW, dialect=QwenDialect)
    bridge = {"rawInput": {}, "kind": "other", "_meta": {"toolName": "tool_call"}}
    talk.send_update("tool_call", toolCallId="c1", title="ToolCall", status="pending", **bridge)
    call = {"title": "{}", "kind": "other", "_meta": {"toolName": "mcp__tiny__shout"}}
    *_, asked = talk.request_permission(1, {"toolCallId": "c1", "rawInput": {"text": "x"}, **call})

    assert isinstance(asked, PermissionRequested)
    assert (asked.tool, server_of(asked)) == ("MCP", "tiny.shout")


def test_the_model_gets_the_reason_of_a_denial() -> None:
    talk = opened(row=ROW, dialect=QwenDialect)
    *_, asked = talk.request_permission(
        7, {"toolCallId": "c1", "kind": "read", "rawInput": {"file_path": "/x"}}
    )
    assert isinstance(asked, PermissionRequested)
    [reply] = talk.wire.answer(asked.request_id, Answer("deny", note="herons nest there"))

    message = "The user denied this call: herons nest there"
    assert reply["result"] == {"outcome": {"outcome": "selected", "optionId": message}}
