"""The coarser view for scripts."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tillerman.core.events import (
    Answer,
    Entry,
    Event,
    MessageChunk,
    MessageWithdrawn,
    Notice,
    PermissionRequested,
    Question,
    QuestionAsked,
    RequestAnswered,
    Text,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.core.transcript import summary_events
from tillerman.core.transcript.summary_events import (
    Error,
    Permission,
    ResultSummary,
    Summary,
    Thinking,
    ToolComplete,
    ToolError,
    ToolStart,
    summarize,
)
from tillerman.core.transcript.turn_result import CallOutcome

HERE: dict[str, Any] = {"session": "s1", "turn": 1}
PROMPT = TurnStarted(origin="prompt", prompt="go")
DONE = TurnEnded(reason="completed")


def log(*events: Event) -> list[Entry]:
    return [
        Entry(session="s1", seq=seq, turn=1, at=f"2026-03-01T10:00:{seq:02}Z", event=event)
        for seq, event in enumerate(events, 1)
    ]


def say(text: str, message_id: str = "m1", parent: str | None = None) -> MessageChunk:
    return MessageChunk(message_id=message_id, text=text, parent=parent)


def said(text: str, parent: str | None = None) -> summary_events.TextSummary:
    return summary_events.TextSummary(**HERE, text=text, parent=parent)


def start(call_id: str, tool: str = "Read", parent: str | None = None) -> ToolStarted:
    return ToolStarted(call_id=call_id, tool=tool, name=tool, title=f"{tool} it", parent=parent)


def started(call_id: str, tool: str = "Read", parent: str | None = None) -> ToolStart:
    return ToolStart(**HERE, call_id=call_id, tool=tool, title=f"{tool} it", parent=parent)


def told(*events: Event) -> list[summary_events.Item]:
    return list(summarize(log(*events)))


def test_a_turn_is_reported_as_whole_messages_calls_and_one_result() -> None:
    usage = UsageReported(input_tokens=3, cost_usd=0.25)
    assert told(
        PROMPT,
        ThoughtChunk(message_id="m1", text="Let me "),
        ThoughtChunk(message_id="m1", text="see."),
        say("I will "),
        say("read."),
        start("c1"),
        ToolFinished(call_id="c1", outcome="completed", content=(Text("x"),)),
        say("Done.", "m2"),
        usage,
        DONE,
    ) == [
        Thinking(**HERE, text="Let me see."),
        said("I will read."),
        started("c1"),
        ToolComplete(**HERE, call_id="c1", tool="Read", title="Read it", content=(Text("x"),)),
        said("Done."),
        ResultSummary(
            session="s1",
            turn=1,
            status="completed",
            text="Done.",
            calls=(CallOutcome("c1", "Read", "Read it", "completed"),),
            usage=usage,
            cost_usd=0.25,
            duration=9.0,
        ),
    ]


def test_a_message_is_reported_as_soon_as_the_next_block_begins_and_not_before() -> None:
    items = Summary()
    assert [items.add(entry) for entry in log(PROMPT, say("a"), say("b"), say("c", "m2"))] == [
        [],
        [],
        [],
        [said("ab")],
    ]
    assert items.close() == [said("c")]
    assert items.close() == []


def test_agents_that_stream_at_once_do_not_interrupt_each_other() -> None:
    assert told(
        PROMPT,
        start("c1", "Task"),
        say("main "),
        say("sub ", "m9", parent="c1"),
        say("text"),
        say("text", "m9", parent="c1"),
        ToolFinished(call_id="c1", outcome="completed"),
        DONE,
    )[1:-1] == [
        said("sub text", parent="c1"),
        ToolComplete(**HERE, call_id="c1", tool="Task", title="Task it"),
        said("main text"),
    ]


def test_background_work_streams_after_its_turn() -> None:
    items = told(
        PROMPT,
        start("c1", "Task"),
        say("still ", "m9", parent="c1"),
        DONE,
        say("here", "m9", parent="c1"),
        ToolFinished(call_id="c1", outcome="completed"),
    )
    assert [type(item).__name__ for item in items] == [
        "ToolStart",
        "ResultSummary",
        "TextSummary",
        "ToolComplete",
    ]
    assert items[2] == said("still here", parent="c1")


def test_a_withdrawn_message_is_never_reported() -> None:
    told_items = told(PROMPT, say("wrong"), MessageWithdrawn(message_id="m1"), say("right"), DONE)
    assert told_items[:-1] == [said("right")]


def test_calls_that_do_not_complete_are_errors_with_their_status() -> None:
    assert told(
        start("c1", "Bash"),
        ToolFinished(call_id="c1", outcome="denied", content=(Text("no"),)),
        ToolFinished(call_id="c9", outcome="failed"),
    ) == [
        started("c1", "Bash"),
        ToolError(
            **HERE,
            call_id="c1",
            tool="Bash",
            title="Bash it",
            outcome="denied",
            content=(Text("no"),),
        ),
        ToolError(**HERE, call_id="c9", tool="", title="c9", outcome="failed"),
    ]


def test_permissions_and_questions_are_reported_when_opened_and_when_answered() -> None:
    question = Question("Which?")
    picked = Answer("allow", answers={"Which?": "that"})
    bash = Permission(**HERE, request_id="r1", tool="Bash", title="Bash `ls`", call_id="c1")
    which = Permission(**HERE, request_id="r2", tool="Question", questions=(question,))
    replace = msgspec.structs.replace
    assert told(
        PermissionRequested(request_id="r1", tool="Bash", title="Bash `ls`", call_id="c1"),
        QuestionAsked(request_id="r2", questions=(question,)),
        RequestAnswered(request_id="r1", answer=Answer("deny"), by="timeout"),
        RequestAnswered(request_id="r2", answer=picked, by="person"),
        RequestAnswered(request_id="never asked", answer=picked, by="person"),
    ) == [
        bash,
        which,
        replace(bash, answer=Answer("deny"), by="timeout"),
        replace(which, answer=picked, by="person"),
    ]


def test_a_failed_turn_reports_its_error_then_its_result() -> None:
    failure = Failure(kind="rate_limited", message="too fast", retry_after=3)
    assert told(
        PROMPT,
        Notice(level="warning", kind="retry", text="again"),
        Notice(level="error", kind="storage", text="disk full"),
        say("half"),
        TurnEnded(reason="failed", failure=failure),
    ) == [
        Error(**HERE, message="disk full"),
        said("half"),
        Error(**HERE, message="too fast", failure=failure),
        ResultSummary(
            session="s1", turn=1, status="failed", text="half", failure=failure, duration=4.0
        ),
    ]


def test_items_are_json_objects_with_their_type() -> None:
    lines = [
        json.loads(msgspec.json.encode(item)) for item in told(PROMPT, say("hi"), start("c1"), DONE)
    ]
    assert lines == [
        {"type": "text", "session": "s1", "turn": 1, "text": "hi"},
        {
            "type": "tool_start",
            "session": "s1",
            "turn": 1,
            "call_id": "c1",
            "tool": "Read",
            "title": "Read it",
        },
        {
            "type": "result",
            "session": "s1",
            "turn": 1,
            "status": "completed",
            "text": "hi",
            "calls": [{"call_id": "c1", "tool": "Read", "title": "Read it", "outcome": "running"}],
            "duration": 3.0,
        },
    ]
