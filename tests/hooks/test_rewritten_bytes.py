"""A hook replies with the very bytes that were decided, and not for a line that hides some."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import pytest

from tillerman.config.policy_rules import rule_of
from tillerman.core.json_fields import parse
from tillerman.core.permission import DecisionContext, Policy
from tillerman.hooks.dialects import load
from tillerman.hooks.policy_only_answer import decide_hook

CI = rule_of({"rewrite": "npm ci", "command": "npm install"}, "rules:1")
POLICY = Policy.preset("auto", rules=[CI])
HERE = DecisionContext(cwd=PurePath("/ws"), home=PurePath("/home/me"))
TOOLS = {
    "claude": ("PreToolUse", "Bash"),
    "codex": ("PreToolUse", "Bash"),
    "gemini": ("BeforeTool", "run_shell_command"),
    "qwen": ("PreToolUse", "run_shell_command"),
    "copilot": ("preToolUse", "bash"),
    "cursor": ("preToolUse", "Shell"),
    "opencode": ("tool.execute.before", "bash"),
}
LINES = (
    "npm install",
    "cd 'a b' && npm install # é 日本 ❤️",
    'echo "it\'s" \\\\ \\n; npm install',
    'cat <<\'EOF\'\n{"command": "npm install"}\nEOF\nnpm install\n',
    "npm install\t&& echo $'\\x41' '\\u0041' \"$HOME\"",
    "(npm install) | tail -3; f() { npm install; }; f",
    "\n\n  npm install  \n\n",
    "echo 'npm install' \"npm install\"; npm install; npm install",
)
HIDDEN = ("\u200b", "\u202e", "\ufeff", "\r", "\0", "\x1b", "\ud800", "\udcff", "\ufffd", "\ue000")


def reply(agent: str, payload: bytes, name: str = "") -> tuple[int, str]:
    dialect = load(agent)
    event = dialect.read(name or TOOLS[agent][0], payload)
    said = decide_hook(dialect, event, POLICY, HERE)
    return said.exit, said.stdout.decode()


def payload(agent: str, line: str) -> bytes:
    event, tool = TOOLS[agent]
    keys = ("toolName", "toolArgs") if agent == "copilot" else ("tool_name", "tool_input")
    told = {
        "hook_event_name": event,
        "session_id": "1",
        "cwd": "/ws",
        "workspace_roots": ["/ws"],
        keys[0]: tool,
        keys[1]: {"command": line, "description": "x"},
    }
    return json.dumps(told).encode()


def commands(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, one in value.items():
            if key == "command" and isinstance(one, str):
                yield one
            else:
                yield from commands(one)


@pytest.mark.parametrize("agent", TOOLS)
@pytest.mark.parametrize("line", LINES)
def test_the_reply_is_the_line_with_only_the_commands_replaced(agent: str, line: str) -> None:
    dialect = load(agent)
    event = dialect.read(TOOLS[agent][0], payload(agent, line))
    request = dialect.request_of(event, "1")
    assert request is not None
    assert request.input["command"] == line
    decision = POLICY.decide(request, HERE)
    _, said = reply(agent, payload(agent, line))
    found = list(commands(json.loads(said))) if said else []
    if decision.verdict == "rewrite" and TOOLS[agent][0] in dialect.CHANGES_INPUT:
        assert decision.input is not None
        assert found == [decision.input["command"]]
    else:
        assert decision.verdict in ("rewrite", "deny")
        assert found == []


def asking(agent: str) -> str:
    """Cursor asks its user at the event that follows."""
    return "beforeShellExecution" if agent == "cursor" else ""


@pytest.mark.parametrize("agent", TOOLS)
@pytest.mark.parametrize("mark", HIDDEN, ids=ascii)
def test_a_line_that_hides_something_is_neither_allowed_nor_changed(agent: str, mark: str) -> None:
    for line in (f"{mark}npm install", f"npm{mark} install", f"npm install{mark}", f"ls #{mark}"):
        told = json.loads(payload(agent, line))
        if agent == "cursor":
            told |= told["tool_input"] | {"hook_event_name": asking(agent)}
        code, said = reply(agent, json.dumps(told).encode(), asking(agent))
        assert list(commands(json.loads(said))) == [] if said else True
        assert code != 0 or "allow" not in said
        assert code != 0 or said, "silence allows"


@pytest.mark.parametrize("agent", TOOLS)
def test_bytes_that_are_no_text_are_neither_allowed_nor_changed(agent: str) -> None:
    for broken in (b"\xff", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80"):
        fields = json.loads(payload(agent, "npm install # MARK"))
        if agent == "cursor":
            fields |= fields["tool_input"] | {"hook_event_name": asking(agent)}
        told = json.dumps(fields).encode().replace(b"MARK", broken)
        code, said = reply(agent, told, asking(agent))
        assert list(commands(json.loads(said))) == [] if said else True
        assert code != 0 or (said and "allow" not in said)


def test_a_lone_surrogate_is_read_as_javascript_hands_it_to_a_program() -> None:
    read = parse(b'{"command": "rm \\ud800 \\udc00 \\ud83d\\ude00"}')
    assert isinstance(read, dict)
    assert read["command"] == "rm \ufffd \ufffd \U0001f600"
