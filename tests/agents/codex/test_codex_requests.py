"""Requests of Codex are decoded, and their answers encoded as Codex expects."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agents.codex.codex_says import TURN, Talk, ask, begun, completed, report
from tillerman.agents.codex.requests import ALWAYS
from tillerman.core.events import (
    ALLOW,
    DENY,
    Answer,
    Choice,
    Notice,
    PermissionRequested,
    Question,
    QuestionAsked,
    RequestAnswered,
    ToolFinished,
    TurnEnded,
)

COMMAND = "item/commandExecution/requestApproval"
PATCH = "item/fileChange/requestApproval"
ELICIT = "mcpServer/elicitation/request"


@pytest.fixture
def talk() -> Talk:
    talk = Talk()
    talk.begin()
    return talk


def answered(talk: Talk, request_id: str, answer: Answer) -> dict[str, Any]:
    """The encoded result."""
    message, *_ = talk.wire.answer(request_id, answer)
    return message["result"]  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("option", "decision"),
    [("allow", "accept"), ("always", "acceptForSession"), ("deny", "decline")],
)
def test_a_command_request_has_its_command_line(talk: Talk, option: str, decision: str) -> None:
    command = "/bin/bash -lc 'make all'"
    talk.receive(begun("commandExecution", "c1", command=command))
    reported = talk.receive(
        ask(0, COMMAND, itemId="c1", command=command, cwd="/proj", reason="to build")
    )
    assert reported == [
        PermissionRequested(
            request_id="0",
            tool="Bash",
            title="Bash `make all`",
            input={"command": "make all", "cwd": "/proj"},
            call_id="c1",
            options=(ALLOW, ALWAYS, DENY),
            reason="to build",
        )
    ]
    assert answered(talk, "0", Answer(option)) == {"decision": decision}
    assert list(talk.wire.answer("0", Answer(option))) == []


def test_network_access_and_stdin_of_a_command_are_named(talk: Talk) -> None:
    network = {"host": "example.com", "protocol": "https"}
    [one] = talk.receive(ask(0, COMMAND, command="curl x", networkApprovalContext=network))
    [two] = talk.receive(ask(1, COMMAND, command="python", kind="writeStdin"))
    assert isinstance(one, PermissionRequested)
    assert isinstance(two, PermissionRequested)
    assert one.title == "Bash `curl x` reaches example.com"
    assert one.input["networkApprovalContext"] == network
    assert two.title == "Type into Bash `python`"


def test_a_note_with_a_deny_is_sent_to_the_turn_as_text(talk: Talk) -> None:
    talk.receive(ask(0, COMMAND, itemId="c1", command="rm x"))
    steer, reply = talk.wire.answer("0", Answer("deny", note="keep it"))
    assert reply == {"id": 0, "result": {"decision": "decline"}}
    assert (steer["method"], steer["params"]["expectedTurnId"]) == ("turn/steer", TURN)
    assert steer["params"]["input"][0]["text"] == "Denied: keep it"


def test_a_patch_of_one_file_is_requested_as_its_action(talk: Talk) -> None:
    change = {"path": "/proj/a", "kind": {"type": "delete"}, "diff": "x\n"}
    talk.receive(begun("fileChange", "f1", changes=[change]))
    [request] = talk.receive(ask(0, PATCH, itemId="f1"))
    assert isinstance(request, PermissionRequested)
    assert (request.tool, request.title, request.paths) == ("Delete", "Delete `a`", ("/proj/a",))


def test_a_patch_of_many_files_names_them_all_and_its_root_folder(talk: Talk) -> None:
    changes = [
        {"path": "/proj/a", "kind": {"type": "update", "move_path": "/proj/b"}, "diff": "@@"},
        {"path": "/proj/c", "kind": {"type": "add"}, "diff": "x\n"},
    ]
    talk.receive(begun("fileChange", "f1", changes=changes))
    [request] = talk.receive(ask(0, PATCH, itemId="f1", grantRoot="/other"))
    assert isinstance(request, PermissionRequested)
    assert request.tool == "MultiEdit"
    assert request.paths == ("/proj/a", "/proj/b", "/proj/c", "/other")


def test_a_patch_that_was_never_announced_names_no_file(talk: Talk) -> None:
    [request] = talk.receive(ask(0, PATCH, itemId="unseen"))
    assert isinstance(request, PermissionRequested)
    assert (request.tool, request.paths) == ("MultiEdit", ())


def test_extra_permissions_are_granted_for_a_turn_or_the_session_or_not(talk: Talk) -> None:
    wanted = {"network": {"enabled": True}, "fileSystem": {"read": None, "write": ["/other"]}}
    for id, option, scope in ((0, "allow", "turn"), (1, "always", "session")):
        [request] = talk.receive(ask(id, "item/permissions/requestApproval", permissions=wanted))
        assert isinstance(request, PermissionRequested)
        assert (request.tool, request.paths) == ("Write", ("/other",))
        assert answered(talk, str(id), Answer(option)) == {"permissions": wanted, "scope": scope}
    network = {"network": {"enabled": True}, "fileSystem": None}
    [request] = talk.receive(ask(2, "item/permissions/requestApproval", permissions=network))
    assert isinstance(request, PermissionRequested)
    assert (request.tool, request.title) == ("Permissions", "More permissions: network")
    assert answered(talk, "2", Answer("deny")) == {"permissions": {}, "scope": "turn"}


def test_a_tool_of_a_server_is_requested_with_its_call(talk: Talk) -> None:
    arguments = {"text": "hi"}
    meta = {
        "codex_approval_kind": "mcp_tool_call",
        "persist": ["session", "always"],
        "tool_params": arguments,
    }
    talk.receive(
        begun("mcpToolCall", "t0", server="tiny", tool="shout", arguments={"text": "other"}),
        begun("mcpToolCall", "t1", server="tiny", tool="shout", arguments=arguments),
        begun("mcpToolCall", "t2", server="other", tool="shout", arguments=arguments),
    )
    reported = talk.receive(ask(0, ELICIT, serverName="tiny", message="Allow it?", _meta=meta))
    assert reported == [
        PermissionRequested(
            request_id="0",
            tool="MCP",
            title="MCP `tiny.shout`",
            input=arguments,
            call_id="t1",
            options=(ALLOW, ALWAYS, DENY),
            reason="Allow it?",
        )
    ]
    assert answered(talk, "0", Answer("always")) == {
        "action": "accept",
        "content": {},
        "_meta": {"persist": "session"},
    }


def test_a_denied_tool_ends_denied_though_it_reports_a_failure(talk: Talk) -> None:
    meta = {"codex_approval_kind": "mcp_tool_call", "tool_params": {}}
    talk.receive(
        begun("mcpToolCall", "t1", server="tiny", tool="shout", arguments={}),
        ask(0, ELICIT, serverName="tiny", _meta=meta),
    )
    assert answered(talk, "0", Answer("deny"))["action"] == "decline"
    failed = {"type": "mcpToolCall", "id": "t1", "status": "failed"}
    assert talk.receive(report("item/completed", item=failed)) == [
        ToolFinished(call_id="t1", outcome="denied")
    ]


def test_a_form_of_a_server_is_a_question_for_each_field(talk: Talk) -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Your name"},
            "age": {"type": "integer", "title": "Age"},
            "sure": {"type": "boolean"},
            "color": {"type": "string", "enum": ["red", "blue"]},
        },
    }
    [asked] = talk.receive(
        ask(0, ELICIT, serverName="tiny", mode="form", message="Who?", requestedSchema=schema)
    )
    assert asked == QuestionAsked(
        request_id="0",
        questions=(
            Question("Your name", "Who?"),
            Question("Age", "Who?"),
            Question("sure", "Who?", (Choice("yes"), Choice("no"))),
            Question("color", "Who?", (Choice("red"), Choice("blue"))),
        ),
    )
    answers = {"Your name": "Ann", "Age": "7", "sure": "yes", "color": "red"}
    content = {"name": "Ann", "age": 7, "sure": True, "color": "red"}
    assert answered(talk, "0", Answer("allow", answers=answers)) == {
        "action": "accept",
        "content": content,
        "_meta": None,
    }


def test_a_link_that_a_server_wants_opened_is_declined_and_reported(talk: Talk) -> None:
    reported = talk.receive(
        ask(0, ELICIT, serverName="tiny", mode="url", message="Sign in:", url="https://example.com")
    )
    assert reported == [
        Notice(
            level="warning",
            kind="session",
            text="MCP server 'tiny' was refused a request to the user: "
            "Sign in: https://example.com",
        )
    ]
    assert talk.sent[-1]["result"]["action"] == "decline"


def test_questions_are_answered_by_their_ids(talk: Talk) -> None:
    questions = [
        {"id": "a", "header": "A", "question": "One?", "options": [{"label": "yes"}]},
        {"id": "b", "header": "B", "question": "Two?", "options": None},
    ]
    talk.receive(ask("x", "item/tool/requestUserInput", questions=questions))
    chosen = Answer("allow", answers={"One?": "yes", "Two?": "free words"})
    assert answered(talk, '"x"', chosen) == {
        "answers": {"a": {"answers": ["yes"]}, "b": {"answers": ["free words"]}}
    }
    talk.receive(ask("y", "item/tool/requestUserInput", questions=questions))
    assert answered(talk, '"y"', Answer("deny")) == {"answers": {}}


def test_requests_that_are_no_longer_pending_are_withdrawn(talk: Talk) -> None:
    talk.receive(ask(0, COMMAND, command="a"), ask("0", COMMAND, command="b"))
    gone = RequestAnswered(request_id='"0"', answer=Answer("deny"), by="withdrawn")
    assert talk.receive(report("serverRequest/resolved", requestId="0")) == [gone]
    assert talk.receive(report("serverRequest/resolved", requestId={})) == []
    assert talk.receive(completed("interrupted")) == [
        RequestAnswered(request_id="0", answer=Answer("deny"), by="withdrawn"),
        TurnEnded(reason="cancelled"),
    ]
