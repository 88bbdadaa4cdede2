"""Each request of the CLI is reported once, and its answer is encoded as the CLI expects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.claude.claude_says import (
    assistant,
    calls,
    can_use_tool,
    control_request,
    hook,
    prompted,
    receive,
    response,
    system,
    tool_result,
    wire,
)
from tillerman.core.events import (
    ALLOW,
    DENY,
    Answer,
    Choice,
    PermissionRequested,
    Question,
    QuestionAsked,
    RequestAnswered,
    Text,
    ToolFinished,
    Unrecognized,
)
from tillerman.core.wire import WireReply

COMMAND = {"command": "rm x"}


def test_the_handshake_subscribes_to_every_call_that_no_rule_asks_about() -> None:
    (hello,) = wire().greet()
    assert hello == {
        "type": "control_request",
        "request_id": "tillerman_1",
        "request": {
            "subtype": "initialize",
            "hooks": {
                "PreToolUse": [
                    {
                        "matcher": "^(?!(?:Bash|Glob|Grep|ListMcpResourcesTool|LSP|Read|"
                        "ReadMcpResourceTool)$)",
                        "hookCallbackIds": ["tillerman_pre_tool_use"],
                        "timeout": 20 * 24 * 3600,
                    }
                ]
            },
        },
    }


def test_a_callback_becomes_a_request() -> None:
    claude = prompted()
    receive(claude, assistant(calls("c1", "Write", file_path="/proj/a.py", content="x")))
    input = {"file_path": "/proj/a.py", "content": "x"}
    assert receive(claude, hook("r1", "c1", "Write", input)) == [
        PermissionRequested(
            request_id="r1",
            tool="Write",
            title="Write `a.py`",
            input=input,
            paths=("/proj/a.py",),
            call_id="c1",
        )
    ]


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (Answer("allow"), {"permissionDecision": "allow"}),
        (
            Answer("allow", input={"command": "ls"}),
            {"permissionDecision": "allow", "updatedInput": {"command": "ls"}},
        ),
        (
            Answer("deny", note="not here"),
            {"permissionDecision": "deny", "permissionDecisionReason": "not here"},
        ),
        (
            Answer("deny"),
            {
                "permissionDecision": "deny",
                "permissionDecisionReason": "The user denied this call.",
            },
        ),
    ],
)
def test_an_answer_to_a_callback_goes_back_as_a_decision(
    answer: Answer, output: dict[str, Any]
) -> None:
    claude = prompted()
    receive(claude, hook("r1", "c1", "Bash", COMMAND))
    decision = {"hookSpecificOutput": {"hookEventName": "PreToolUse", **output}}
    assert list(claude.answer("r1", answer)) == [response("r1", decision)]


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (Answer("allow"), {"behavior": "allow", "updatedInput": COMMAND}),
        (
            Answer("allow", input={"command": "ls"}),
            {"behavior": "allow", "updatedInput": {"command": "ls"}},
        ),
        (Answer("deny", note="no"), {"behavior": "deny", "message": "no"}),
    ],
)
def test_an_answer_to_can_use_tool_goes_back_as_a_behavior(
    answer: Answer, body: dict[str, Any]
) -> None:
    claude = prompted()
    receive(claude, can_use_tool("r1", "c1", "Bash", COMMAND))
    assert list(claude.answer("r1", answer)) == [response("r1", body)]


def test_a_call_allowed_in_the_callback_is_not_asked_about_again() -> None:
    claude = prompted()
    receive(claude, hook("r1", "c1", "Bash", COMMAND))
    list(claude.answer("r1", Answer("allow", input={"command": "ls"})))
    allow = {"behavior": "allow", "updatedInput": {"command": "ls"}}
    assert receive(claude, can_use_tool("r2", "c1", "Bash", COMMAND)) == [
        WireReply(response("r2", allow))
    ]


def test_an_allowance_ends_with_its_call() -> None:
    claude = prompted()
    receive(claude, assistant(calls("c1", "Bash", **COMMAND)), hook("r1", "c1", "Bash", COMMAND))
    list(claude.answer("r1", Answer("allow")))
    receive(claude, tool_result("c1"))
    (asked,) = receive(claude, can_use_tool("r2", "c1", "Bash", COMMAND))
    assert isinstance(asked, PermissionRequested)


def test_a_second_answer_is_not_sent() -> None:
    claude = prompted()
    receive(claude, hook("r1", "c1", "Bash", COMMAND))
    assert len(list(claude.answer("r1", Answer("deny")))) == 1
    assert list(claude.answer("r1", Answer("allow"))) == []


def test_a_withdrawn_request_is_answered_and_accepts_no_further_answer() -> None:
    claude = prompted()
    receive(claude, hook("r1", "c1", "Bash", COMMAND))
    cancel = {"type": "control_cancel_request", "request_id": "r1"}
    assert receive(claude, cancel) == [
        RequestAnswered(request_id="r1", answer=Answer("deny"), by="withdrawn")
    ]
    assert list(claude.answer("r1", Answer("allow"))) == []
    assert receive(claude, cancel) == []


def test_a_question_is_asked_with_its_choices_and_answered_by_their_labels() -> None:
    claude = prompted()
    option = {"label": "Red", "description": "warm"}
    question = {"question": "Which?", "header": "Colour", "options": [option], "multiSelect": True}
    input = {"questions": [question]}
    assert receive(claude, hook("r1", "c1", "AskUserQuestion", input)) == [
        WireReply(response("r1", {}))
    ]
    assert receive(claude, can_use_tool("r2", "c1", "AskUserQuestion", input)) == [
        QuestionAsked(
            request_id="r2",
            questions=(
                Question("Which?", header="Colour", choices=(Choice("Red", "warm"),), many=True),
            ),
            call_id="c1",
        )
    ]
    answer = Answer("allow", answers={"Which?": "Red"})
    allow = {"behavior": "allow", "updatedInput": {**input, "answers": {"Which?": "Red"}}}
    assert list(claude.answer("r2", answer)) == [response("r2", allow)]


def test_a_question_left_unanswered_is_denied() -> None:
    claude = prompted()
    receive(claude, can_use_tool("r1", "c1", "AskUserQuestion", {"questions": []}))
    body = {"behavior": "deny", "message": "away"}
    assert list(claude.answer("r1", Answer("deny", note="away"))) == [response("r1", body)]


def test_the_end_of_plan_mode_is_asked_with_the_plan_that_the_call_holds() -> None:
    claude = prompted("plan")
    receive(claude, assistant(calls("c1", "ExitPlanMode", plan="1. Do A")))
    assert receive(claude, hook("r1", "c1", "ExitPlanMode")) == [WireReply(response("r1", {}))]
    assert receive(claude, can_use_tool("r2", "c1", "ExitPlanMode")) == [
        PermissionRequested(
            request_id="r2",
            tool="ExitPlanMode",
            title="Present the plan",
            input={"plan": "1. Do A"},
            call_id="c1",
        )
    ]
    # what was asked is given back: with the plan in it, the CLI would call it edited by the user
    body = {"behavior": "allow", "updatedInput": {}}
    assert list(claude.answer("r2", Answer("allow"))) == [response("r2", body)]


@pytest.mark.parametrize(
    ("mode", "path", "passes"),
    [
        ("plan", "/home/u/.claude/plans/a-plan.md", True),
        ("plan", "/home/u/.claude/plans/a-plan.sh", False),
        ("plan", "/proj/.claude/plans/a-plan.md", False),
        ("plan", "/home/u/.claude/plans/../settings.md", False),
        ("agent", "/home/u/.claude/plans/a-plan.md", False),
    ],
)
def test_only_the_agents_own_plan_file_is_left_to_its_native_rules(
    mode: Any, path: str, passes: bool
) -> None:
    claude = prompted(mode)
    transcript = "/home/u/.claude/projects/-proj/s1.jsonl"
    write = hook("r1", "c1", "Write", {"file_path": path}, transcript_path=transcript)
    (received,) = receive(claude, write)
    assert (received == WireReply(response("r1", {}))) is passes
    assert isinstance(received, PermissionRequested) is not passes


def test_a_subagents_request_names_the_call_it_works_inside() -> None:
    """Its callback may arrive before the line with the call."""
    claude = prompted()
    receive(
        claude,
        assistant(calls("c1", "Agent", description="sub")),
        system("task_started", task_id="agent_7", tool_use_id="c1"),
    )
    (asked,) = receive(claude, hook("r1", "c2", "Bash", COMMAND, agent_id="agent_7"))
    assert isinstance(asked, PermissionRequested)
    assert (asked.parent, asked.call_id) == ("c1", "c2")


def test_a_callback_that_names_no_tool_is_denied() -> None:
    reply, why = receive(prompted(), control_request("r1", subtype="hook_callback", input={}))
    assert isinstance(reply, WireReply)
    output = reply.message["response"]["response"]["hookSpecificOutput"]
    assert output["permissionDecision"] == "deny"
    assert isinstance(why, Unrecognized)


def test_an_unknown_request_is_refused_and_stored() -> None:
    reply, stored = receive(prompted(), control_request("r1", subtype="fly"))
    error = {"subtype": "error", "request_id": "r1", "error": "'fly' is not supported"}
    assert reply == WireReply({"type": "control_response", "response": error})
    assert isinstance(stored, Unrecognized)


def test_a_call_that_we_denied_ends_denied_whatever_its_result() -> None:
    claude = prompted()
    receive(claude, assistant(calls("c1", "Bash", **COMMAND)), hook("r1", "c1", "Bash", COMMAND))
    list(claude.answer("r1", Answer("deny", note="no")))
    assert receive(claude, tool_result("c1", "no", is_error=True)) == [
        ToolFinished(call_id="c1", outcome="denied", content=(Text("no"),))
    ]


def test_rules_the_cli_would_remember_are_shown_and_never_chosen() -> None:
    """The CLI would write the rule to its own files, and stop requesting approval."""
    claude = prompted()
    rule = {"toolName": "Bash", "ruleContent": "npm test"}
    suggested = [
        {"type": "addRules", "rules": [rule], "behavior": "allow", "destination": "localSettings"},
        {"type": "addDirectories", "directories": ["/other"], "destination": "session"},
        {"type": "setMode", "mode": "acceptEdits", "destination": "session"},
        {"type": "from tomorrow"},
    ]
    (asked,) = receive(
        claude, can_use_tool("r1", "c1", "Bash", COMMAND, permission_suggestions=suggested)
    )
    assert isinstance(asked, PermissionRequested)
    assert asked.reason == (
        "Claude Code would remember: allow Bash(npm test) (localSettings);"
        " work in /other (session); mode acceptEdits (session)"
    )
    assert asked.options == (ALLOW, DENY)
    body = {"behavior": "allow", "updatedInput": COMMAND}
    assert list(claude.answer("r1", Answer("allow"))) == [response("r1", body)]
