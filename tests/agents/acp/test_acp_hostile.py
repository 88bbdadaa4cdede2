"""ACP agents that violate the protocol: every turn ends, and answers match their requests."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.agents.acp.acp_far_side import ROW, Talk, opened
from tillerman.core.events import (
    Answer,
    Notice,
    PermissionRequested,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unrecognized,
)

CALL = {"toolCallId": "c1", "title": "ls", "kind": "execute", "rawInput": {"command": "ls"}}
OTHER = {"toolCallId": "c2", "title": "rm", "kind": "execute", "rawInput": {"command": "rm -rf /"}}
REFUSED = {"outcome": {"outcome": "cancelled"}}


def denied(why: str) -> list[Notice]:
    return [Notice(level="warning", kind="stray", text=f"permission was denied: {why}")]


def answers(talk: Talk, id: object) -> list[Any]:
    return [one["result"] for one in talk.sent if one.get("id") == id and "method" not in one]


def test_a_permission_asked_for_after_the_turn_is_denied_and_begins_no_turn() -> None:
    talk = opened()
    talk.answers({"stopReason": "end_turn"})
    assert talk.request_permission("late", CALL) == denied("the agent asked outside of a turn")
    assert answers(talk, "late") == [REFUSED]


def test_a_permission_asked_for_before_any_prompt_is_denied() -> None:
    talk = Talk()
    assert talk.request_permission("early", CALL) == denied("the agent asked outside of a turn")
    assert answers(talk, "early") == [REFUSED]


def test_an_agent_that_reports_the_end_of_its_own_turns_wakes_to_ask() -> None:
    talk = opened(row=replace(ROW, turn_over="_acme/over"))
    talk.answers({"stopReason": "end_turn"})
    woke, started, asked = talk.request_permission("late", CALL)
    assert woke == TurnStarted(origin="agent")
    assert isinstance(started, ToolStarted)
    assert isinstance(asked, PermissionRequested)
    assert talk.receives({"method": "_acme/over"})[-1] == TurnEnded(reason="completed")


def test_a_permission_asked_for_after_a_cancel_is_denied_whatever_the_policy() -> None:
    talk = opened()
    talk.sent += talk.wire.cancel()
    assert talk.request_permission("more", CALL) == denied("the turn was cancelled")
    assert answers(talk, "more") == [REFUSED]
    assert talk.answers({"stopReason": "cancelled"}) == [TurnEnded(reason="cancelled")]


def test_a_second_request_with_an_open_id_does_not_get_the_answer_to_the_first() -> None:
    talk = opened()
    first = talk.request_permission("same", CALL)
    (second,) = talk.request_permission("same", OTHER)
    assert isinstance(second, Unrecognized)
    (asked,) = [event for event in first if isinstance(event, PermissionRequested)]
    assert asked.call_id == "c1"
    talk.sent += talk.wire.answer(asked.request_id, Answer("allow"))
    talk.sent += talk.wire.answer(asked.request_id, Answer("allow"))
    assert answers(talk, "same") == [
        {"outcome": {"outcome": "selected", "optionId": "the-allow_once"}}
    ]


@pytest.mark.parametrize("id", [2**70, -(2**70), 1.5, "", "\n\x1b[2J", "x" * 100_000])
def test_a_request_is_answered_by_its_own_id_however_odd_the_id_is(id: Any) -> None:
    talk = opened()
    events = talk.request_permission(id, CALL)
    (asked,) = [event for event in events if isinstance(event, PermissionRequested)]
    talk.sent += talk.wire.answer(asked.request_id, Answer("deny"))
    assert len(answers(talk, id)) == 1
    json.dumps(talk.sent[-1])


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ({"command": "ls"}, {"command": "rm -rf /"}),
        ({"path": "a.txt"}, {"command": "rm -rf /"}),
        ({"file_path": "a.txt", "content": "x"}, {"file_path": "/etc/passwd", "content": "x"}),
        ({"file_path": "a.txt", "content": "x"}, {"path": "/etc/passwd"}),
    ],
)
def test_a_request_is_decided_by_its_own_call_even_if_the_call_began_as_another(
    told: dict[str, str], asked: dict[str, str]
) -> None:
    talk = opened()
    talk.send_update("tool_call", **{**CALL, "status": "pending", "rawInput": told})
    (request,) = talk.request_permission("r", {**CALL, "rawInput": asked})
    assert isinstance(request, PermissionRequested)
    assert request.input | asked == request.input


@pytest.mark.parametrize("command", [5, True, {"run": "rm -rf /"}, ["rm", 5], [["rm"]], -1.5])
@pytest.mark.parametrize("key", ["command", "cmd"])
def test_a_title_never_replaces_a_command_that_cannot_be_read(key: str, command: object) -> None:
    talk = opened()
    asked = talk.request_permission("r", {**CALL, "title": "ls", "rawInput": {key: command}})
    inputs = [
        event.input for event in asked if isinstance(event, ToolStarted | PermissionRequested)
    ]
    assert inputs == [{"command": "", key: command}] * 2
