"""The policy's decision on a hook's request, as a reply."""

from __future__ import annotations

import json
from pathlib import PurePath
from typing import Any

from tillerman.core.permission import DecisionContext, Policy, Rule
from tillerman.hooks.dialects import load
from tillerman.hooks.policy_only_answer import decide_hook
from tillerman.hooks.protocol import HookReply

CONTEXT = DecisionContext(cwd=PurePath("/proj"), agent="x")


def reply_to(agent: str, event: str, payload: dict[str, Any], *rules: Rule) -> HookReply:
    one = load(agent)
    reported = one.read(event, json.dumps(payload).encode())
    return decide_hook(one, reported, Policy.preset("ask", rules=rules), CONTEXT)


def test_an_event_without_a_call_gets_no_decision() -> None:
    assert reply_to("claude", "SessionStart", {"source": "startup"}) == HookReply()
    assert reply_to("cursor", "afterFileEdit", {"file_path": "/x"}) == HookReply()


def test_a_rule_for_one_agent_does_not_apply_to_another() -> None:
    rule = Rule("mine", "deny", "not here", agents=("y",))
    call = {"tool_name": "Read", "tool_input": {"file_path": "a"}}
    reply = reply_to("claude", "PreToolUse", call, rule)
    assert json.loads(reply.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_the_reason_names_the_rule() -> None:
    call = {"toolName": "create", "toolArgs": {"path": "/etc/passwd", "file_text": "x"}}
    assert json.loads(reply_to("copilot", "preToolUse", call).stdout) == {
        "permissionDecision": "deny",
        "permissionDecisionReason": (
            "writes outside the workspace: /etc/passwd (tillerman: guard.outside)"
        ),
    }


def test_a_rewrite_of_keys_that_the_cli_names_otherwise_is_a_deny() -> None:
    patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n"
    rule = Rule("mine", "rewrite", "elsewhere", tools=frozenset({"Write"}), rewrite={"paths": []})
    call = {"tool_name": "apply_patch", "tool_input": {"command": patch}}
    reply = reply_to("codex", "PreToolUse", call, rule)
    assert json.loads(reply.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
