"""What Cursor's wire decodes from lines that no recording contains."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.cursor.cursor_playback import PROMPT, SPEC, case, cases, decoded, play, text_of
from tillerman.agents.cursor.wire import CursorWire
from tillerman.core.agent import Exit, SessionSpec
from tillerman.core.events import (
    AgentReady,
    Event,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PlanChanged,
    PlanStep,
    Text,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Unrecognized,
)
from tillerman.core.failure import Failure
from tillerman.core.session_options import with_options

DONE = TurnEnded(reason="completed")
RETRY = {"type": "retry", "subtype": "starting", "attempt": 1}


def piece(text: str) -> dict[str, Any]:
    return {**whole(text), "timestamp_ms": 1}


def whole(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return {"type": "assistant", "message": {"role": "assistant", "content": content}, **more}


def before_call(text: str) -> dict[str, Any]:
    return whole(text, model_call_id="r-0-x", timestamp_ms=2)


def call(kind: str, subtype: str = "started", **body: Any) -> dict[str, Any]:
    tool = {f"{kind}ToolCall": body, "toolCallId": "c\n1", "hookAdditionalContexts": []}
    return {"type": "tool_call", "subtype": subtype, "call_id": "c\n1", "tool_call": tool}


def result(text: str = "", **more: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": text, **more}


def chunk(number: int, text: str) -> MessageChunk:
    return MessageChunk(message_id=f"message-{number}", text=text)


def finished(events: list[Event]) -> ToolFinished:
    (one,) = [event for event in events if isinstance(event, ToolFinished)]
    return one


# -- words -----------------------------------------------------------------------------------------


def test_chunks_are_reported_as_they_come_and_their_whole_message_is_not_repeated() -> None:
    assert decoded(piece("Hel"), piece("lo"), whole("Hello")) == [chunk(1, "Hel"), chunk(1, "lo")]


def test_a_whole_message_adds_what_its_chunks_left_out() -> None:
    assert decoded(piece("Hel"), whole("Hello")) == [chunk(1, "Hel"), chunk(1, "lo")]


def test_equal_chunks_are_each_reported() -> None:
    assert text_of(decoded(piece("ha"), piece("ha"), whole("haha"))) == "haha"


def test_without_chunks_each_whole_message_is_reported_once() -> None:
    events = decoded(before_call("One."), call("ls", args={}), whole("Two."), result("One.Two."))
    assert [event for event in events if isinstance(event, MessageChunk)] == [
        chunk(1, "One."),
        chunk(2, "Two."),
    ]


def test_the_same_text_after_a_call_is_new_text() -> None:
    events = decoded(
        piece("Again."),
        before_call("Again."),
        call("ls", args={}),
        piece("Again."),
        whole("Again."),
    )
    assert text_of(events) == "Again.Again."


def test_a_whole_message_that_differs_from_its_chunks_is_reported_too() -> None:
    assert decoded(piece("one"), whole("two")) == [chunk(1, "one"), chunk(2, "two")]


def test_after_a_retry_text_that_restarts_replaces_the_earlier_text() -> None:
    events = decoded(piece("Hel"), RETRY, piece("Hello"), whole("Hello"), result("Hello"))
    assert text_of(events) == "Hello"
    assert MessageWithdrawn(message_id="message-1") in events


def test_after_a_retry_text_that_continues_is_kept() -> None:
    events = decoded(piece("Hel"), RETRY, piece("lo"), whole("Hello"), result("Hello"))
    assert text_of(events) == "Hello"
    assert not [event for event in events if isinstance(event, MessageWithdrawn)]


def test_text_only_in_the_result_is_reported() -> None:
    assert decoded(result("Hello.")) == [chunk(1, "Hello."), DONE]


# -- tools -----------------------------------------------------------------------------------------


def test_a_call_has_one_id_without_a_newline() -> None:
    events = decoded(
        call("read", args={"path": "/proj/a"}),
        call("read", "completed", args={"path": "/proj/a"}, result={"success": {"content": "x"}}),
    )
    assert events == [
        ToolStarted(
            call_id="c/1",
            tool="Read",
            name="read",
            title="Read `a`",
            input={"path": "/proj/a"},
            paths=("/proj/a",),
        ),
        ToolFinished(call_id="c/1", outcome="completed", content=(Text("x"),)),
    ]


def test_a_call_that_ends_without_its_beginning_is_begun() -> None:
    events = decoded(call("ls", "completed", args={}, result={"success": {}}))
    assert [type(event) for event in events] == [ToolStarted, ToolFinished]


def test_a_call_that_the_turn_left_open_is_cancelled() -> None:
    events = decoded(call("shell", args={"command": "x"}), result("Bye."))
    assert finished(events).outcome == "cancelled"


@pytest.mark.parametrize(
    ("told", "outcome", "content"),
    [
        ({"rejected": {"reason": "No."}}, "denied", (Text("No."),)),
        ({"permissionDenied": {"error": "Denied."}}, "denied", (Text("Denied."),)),
        ({"error": {"errorMessage": "Gone."}}, "failed", (Text("Gone."),)),
        ({"timeout": {"after": 3}}, "failed", (Text('{"timeout": {"after": 3}}'),)),
        ({"failure": {"exitCode": 2}}, "failed", (Text("exit code 2"),)),
        (
            {"failure": {"stdout": "a", "stderr": "b", "exitCode": 2}},
            "failed",
            (Text("ab"), Text("exit code 2")),
        ),
        ({}, "completed", ()),
    ],
)
def test_the_outcome_of_a_call(told: dict[str, Any], outcome: str, content: tuple[Text]) -> None:
    events = decoded(call("shell", "completed", args={"command": "x"}, result=told))
    assert (finished(events).outcome, finished(events).content) == (outcome, content)


def test_a_command_left_running_is_reported() -> None:
    fields = {"success": {"exitCode": 0}, "isBackground": True}
    events = decoded(call("shell", "completed", args={"command": "x"}, result=fields))
    assert finished(events).content == (Text("Works in the background."),)


def test_steps_that_were_abandoned_are_no_longer_open() -> None:
    todos = [{"content": "a", "status": "TODO_STATUS_CANCELLED"}, {"content": "b"}]
    events = decoded(
        call("updateTodos", "completed", args={}, result={"success": {"todos": todos}})
    )
    assert events[-1] == PlanChanged(steps=(PlanStep("a", "completed"), PlanStep("b")))


# -- conversations and ends ------------------------------------------------------------------------


def init(session: str = "s1") -> dict[str, Any]:
    return {"type": "system", "subtype": "init", "session_id": session, "model": "Auto"}


def decode(spec: SessionSpec, *messages: dict[str, Any]) -> list[Event]:
    import json

    return play((json.dumps(message).encode() for message in messages), spec)


def test_the_requested_conversation_is_the_one_that_continues() -> None:
    spec = replace(SPEC, resume="s1")
    assert decode(spec, init("s1"), result("Hi."))[-1] == DONE


def test_another_conversation_than_the_requested_one_is_a_failure() -> None:
    events = decode(replace(SPEC, resume="s1"), init("s2"), result("Hi."))
    assert events[0] == AgentReady(native_id="s2", model="Auto")
    assert events[-1] == TurnEnded(
        reason="failed",
        failure=Failure(
            kind="history_lost",
            message="Cursor was asked to resume conversation s1, but opened s2",
            hint="the agent no longer has this conversation: start a new session",
        ),
    )


def test_withheld_tools_are_reported_once_and_again_when_they_change() -> None:
    wire = CursorWire(SPEC)
    notices = []
    for approve in ("ask", "ask", "edits", "none", "auto"):
        wire.launch(with_options(SPEC, approve=approve), PROMPT)
        events = wire.decode(b'{"type":"system","subtype":"init","session_id":"s1"}')
        notices += [one.text for one in events if isinstance(one, Notice)]
    assert notices == [
        "Cursor cannot ask for approval here: commands, writes, MCP and the web are disabled"
        " (approve = ask); reads outside the workspace are not",
        "Cursor cannot ask for approval here: commands, MCP and the web are disabled"
        " (approve = edits); reads outside the workspace are not",
        "Cursor cannot ask for approval here: commands, writes, MCP, the web and any other tool"
        " are disabled (approve = none)",
        "Cursor does not ask for approval here: everything but writes to protected files is"
        " allowed, also outside the workspace",
    ]


@pytest.mark.parametrize(
    ("approve", "told", "notices"),
    [
        ("ask", {"success": {}}, 1),
        ("ask", {"failure": {"exitCode": 1}}, 1),
        ("ask", {"permissionDenied": {"error": "No."}}, 0),
        ("auto", {"success": {}}, 0),
    ],
)
def test_a_version_that_ignores_the_restriction_is_reported_once(
    approve: str, told: dict[str, Any], notices: int
) -> None:
    ran = call("shell", "completed", args={"command": "x"}, result=told)
    events = decode(with_options(SPEC, approve=approve), ran, ran)
    notice = Notice(
        level="error",
        kind="settings",
        text="Cursor used its shell tool although it was disabled: this version ignores that",
    )
    assert [one for one in events if isinstance(one, Notice)] == [notice] * notices


def test_a_bare_error_of_older_versions_is_why_the_turn_failed() -> None:
    wire = CursorWire(SPEC)
    assert list(wire.decode(b"T: Named models unavailable")) == [
        Notice(level="error", kind="session", text="Named models unavailable")
    ]
    failure = wire.explain(Exit(1, None), "")
    assert failure is not None
    assert failure.kind == "billing"


def test_several_objects_on_a_line_are_decoded_unless_one_is_invalid() -> None:
    retry = b'{"type":"retry","subtype":"starting","attempt":2}'
    assert play([retry + b" " + retry]) == play([retry]) * 2
    assert [type(one) for one in play([retry + b" {"])] == [Unrecognized]


@pytest.mark.parametrize(
    ("file", "name", "kind"),
    [
        ("auth_error.jsonl", "run, not signed in", "not_signed_in"),
        ("auth_error.jsonl", "run, key is wrong", "not_signed_in"),
        ("process_failures.jsonl", "folder not trusted", "denied"),
        ("process_failures.jsonl", "plan does not include the model", "billing"),
        ("process_failures.jsonl", "no such model", "model_not_found"),
        ("process_failures.jsonl", "usage limit reached", "billing"),
        ("process_failures.jsonl", "no such folder", "agent_failed"),
        ("process_failures.jsonl", "unknown option", "agent_failed"),
        ("process_failures.jsonl", "interrupted by SIGINT", None),
        ("process_failures.jsonl", "killed", None),
    ],
)
def test_a_recorded_exit_is_explained(file: str, name: str, kind: str | None) -> None:
    reported = case(file, name)
    wire = CursorWire(SPEC)
    for line in reported["stdout"].encode().splitlines():
        list(wire.decode(line))
    exit = Exit(reported["exit"], None) if reported["exit"] >= 0 else Exit(None, -reported["exit"])
    failure = wire.explain(exit, reported["stderr"])
    assert (failure.kind if failure else None) == kind
    if failure:
        assert failure.hint
        assert failure.message in reported["stderr"]
        assert len(failure.message) < 200


def test_every_recorded_failure_is_classified() -> None:
    assert len([one for one in cases("process_failures.jsonl") if one["exit"]]) == 8
