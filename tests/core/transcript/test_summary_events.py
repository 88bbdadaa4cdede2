"""The condensed view for scripts."""

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


def chunk(text: str, message_id: str = "m1", parent: str | None = None) -> MessageChunk:
    return MessageChunk(message_id=message_id, text=text, parent=parent)


def text_item(text: str, parent: str | None = None) -> summary_events.TextSummary:
    return summary_events.TextSummary(**HERE, text=text, parent=parent)


def start(call_id: str, tool: str = "Read", parent: str | None = None) -> ToolStarted:
    return ToolStarted(call_id=call_id, tool=tool, name=tool, title=f"{tool} it", parent=parent)


def started(call_id: str, tool: str = "Read", parent: str | None = None) -> ToolStart:
    return ToolStart(**HERE, call_id=call_id, tool=tool, title=f"{tool} it", parent=parent)


def summarized(*events: Event) -> list[summary_events.Item]:
    return list(summarize(log(*events)))


def test_a_turn_is_reported_as_whole_messages_calls_and_one_result() -> None:
    usage = UsageReported(input_tokens=3, cost_usd=0.25)
    assert summarized(
        PROMPT,
        ThoughtChunk(message_id="m1", text="Let me "),
        ThoughtChunk(message_id="m1", text="see."),
        chunk("I will "),
        chunk("read."),
        start("c1"),
        ToolFinished(call_id="c1", outcome="completed", content=(Text("x"),)),
        chunk("Done.", "m2"),
        usage,
        DONE,
    ) == [
        Thinking(**HERE, text="Let me see."),
        text_item("I will read."),
        started("c1"),
        ToolComplete(**HERE, call_id="c1", tool="Read", title="Read it", content=(Text("x"),)),
        text_item("Done."),
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
    assert [
        items.add(entry) for entry in log(PROMPT, chunk("a"), chunk("b"), chunk("c", "m2"))
    ] == [
        [],
        [],
        [],
        [text_item("ab")],
    ]
    assert items.close() == [text_item("c")]
    assert items.close() == []


def test_agents_that_stream_at_once_do_not_interrupt_each_other() -> None:
    assert summarized(
        PROMPT,
        start("c1", "Task"),
        chunk("main "),
        chunk("sub ", "m9", parent="c1"),
        chunk("text"),
        chunk("text", "m9", parent="c1"),
        ToolFinished(call_id="c1", outcome="completed"),
        DONE,
    )[1:-1] == [
        text_item("sub text", parent="c1"),
        ToolComplete(**HERE, call_id="c1", tool="Task", title="Task it"),
        text_item("main text"),
    ]


def test_background_work_streams_after_its_turn() -> None:
    items = summarized(
        PROMPT,
        start("c1", "Task"),
        chunk("still ", "m9", parent="c1"),
        DONE,
        chunk("here", "m9", parent="c1"),
        ToolFinished(call_id="c1", outcome="completed"),
    )
    assert [type(item).__name__ for item in items] == [
        "ToolStart",
        "ResultSummary",
        "TextSummary",
        "ToolComplete",
    ]
    assert items[2] == text_item("still here", parent="c1")


def test_a_withdrawn_message_is_never_reported() -> None:
    told_items = summarized(
        PROMPT, chunk("wrong"), MessageWithdrawn(message_id="m1"), chunk("right"), DONE
    )
    assert told_items[:-1] == [text_item("right")]


def test_calls_that_do_not_complete_are_errors_with_their_status() -> None:
    assert summarized(
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
    assert summarized(
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
    assert summarized(
        PROMPT,
        Notice(level="warning", kind="retry", text="again"),
        Notice(level="error", kind="storage", text="disk full"),
        chunk("half"),
        TurnEnded(reason="failed", failure=failure),
    ) == [
        Error(**HERE, message="disk full"),
        text_item("half"),
        Error(**HERE, message="too fast", failure=failure),
        ResultSummary(
            session="s1", turn=1, status="failed", text="half", failure=failure, duration=4.0
        ),
    ]


def test_items_are_json_objects_with_their_type() -> None:
    lines = [
        json.loads(msgspec.json.encode(item))
        for item in summarized(PROMPT, chunk("hi"), start("c1"), DONE)
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
