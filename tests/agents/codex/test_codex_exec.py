"""`codex exec` beyond its recordings: usage over turns, ids, and errors on stderr."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tillerman.agents.codex.exec.exec_wire import CodexExecWire
from tillerman.core.agent import Exit, Prompt
from tillerman.core.events import (
    Event,
    PlanChanged,
    PlanStep,
    ToolFinished,
    TurnEnded,
    Unrecognized,
    UsageReported,
)
from tillerman.core.session_options import session_spec
from tillerman.core.wire import AttachmentBytes, WireReply


def wire(**more: Any) -> CodexExecWire:
    return CodexExecWire(session_spec(cwd=Path("/proj"), **more))


def turn(
    codex: CodexExecWire, *messages: dict[str, Any]
) -> list[Event | WireReply | AttachmentBytes]:
    codex.launch(session_spec(cwd=Path("/proj")), Prompt("go"))
    return [one for each in messages for one in codex.decode(json.dumps(each).encode())]


def ended(input: int, output: int, cached: int = 0) -> dict[str, Any]:
    usage = {"input_tokens": input, "cached_input_tokens": cached, "output_tokens": output}
    return {"type": "turn.completed", "usage": usage}


def item(kind: str, type: str = "item.completed", **more: Any) -> dict[str, Any]:
    return {"type": type, "item": {"id": "item_0", "type": kind, **more}}


def used(messages: list[Event | WireReply | AttachmentBytes]) -> list[UsageReported]:
    return [one for one in messages if isinstance(one, UsageReported)]


def test_the_usage_of_a_turn_is_the_total_less_the_last_one() -> None:
    codex = wire()
    assert used(turn(codex, ended(100, 10, 40))) == [
        UsageReported(input_tokens=60, output_tokens=10, cached_tokens=40)
    ]
    assert used(turn(codex, ended(250, 15, 90))) == [
        UsageReported(input_tokens=100, output_tokens=5, cached_tokens=50)
    ]


def test_the_first_turn_of_a_resumed_conversation_cannot_be_counted() -> None:
    codex = wire(resume="t1")
    assert used(turn(codex, ended(300, 30))) == []
    assert used(turn(codex, ended(400, 40))) == [UsageReported(input_tokens=100, output_tokens=10)]


def test_ids_that_restart_are_distinguished_by_their_turn() -> None:
    codex = wire()
    call = item("command_execution", command="ls", status="completed", exit_code=0)
    ids = [
        one.call_id
        for reported in (turn(codex, call), turn(codex, call))
        for one in reported
        if isinstance(one, ToolFinished)
    ]
    assert ids == ["1:item_0", "2:item_0"]


def test_a_todo_list_becomes_the_plan() -> None:
    steps = [{"text": "look", "completed": True}, {"text": "act", "completed": False}]
    assert turn(wire(), item("todo_list", "item.updated", items=steps)) == [
        PlanChanged(steps=(PlanStep("look", "completed"), PlanStep("act")))
    ]


def test_an_answer_in_a_schema_is_the_result() -> None:
    codex = wire(output_schema={"type": "object"})
    reported = turn(codex, item("agent_message", text='{"answer": 42}'), ended(1, 1))
    assert reported[-1] == TurnEnded(reason="completed", result={"answer": 42})


def test_unknown_message_becomes_unrecognized() -> None:
    reported = turn(wire(), {"type": "new.thing"}, item("new_thing"))
    assert [type(one) for one in reported] == [Unrecognized, Unrecognized]


def test_an_error_on_stderr_is_the_reason_of_the_exit() -> None:
    stderr = (
        "Reading additional input from stdin...\n"
        "Error: thread/resume: thread/resume failed: no rollout found for thread id x\n"
    )
    why = wire().explain(Exit(1, None), stderr)
    assert why is not None
    assert "start a new session" in why.hint
    assert wire().explain(Exit(0, None), stderr) is None
    assert wire().explain(Exit(1, None), "") is None
