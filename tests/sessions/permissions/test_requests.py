"""Requests of a session: each answered once, by policy, user or timeout, in any order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO, MockAgent
from tillerman.agents.mock.wire import MockWire
from tillerman.core.agent import AgentInfo
from tillerman.core.errors import RequestNotOpen, UsageError
from tillerman.core.events import (
    Answer,
    Entry,
    Event,
    Notice,
    PermissionRequested,
    RequestAnswered,
    ToolFinished,
)
from tillerman.core.permission import Rule
from tillerman.sessions.run_settings import TurnLimits
from tillerman.sessions.session import Session

CI = Rule("ci", "rewrite", commands=("npm install",), rewrite="echo npm ci > ran.txt")


async def play(session: Session, *steps: dict[str, Any]) -> list[Event]:
    async with asyncio.timeout(20):
        return [entry.event async for entry in session.run(json.dumps(list(steps)))]


def answers(events: list[Event]) -> list[RequestAnswered]:
    return [event for event in events if isinstance(event, RequestAnswered)]


def agent(**fields: Any) -> MockAgent:
    return MockAgent(AgentInfo("mock", "Mock", asks=INFO.asks, **fields), MockWire)


async def test_a_rewritten_command_is_run_in_place_of_what_was_asked(desk: Desk) -> None:
    session = await desk.start(rules=(CI,))
    (answered,) = answers(await play(session, {"run": "npm install"}))
    assert answered == RequestAnswered(
        request_id=answered.request_id,
        answer=Answer("allow", input={"command": "echo npm ci > ran.txt"}),
        by="policy",
        surface="ci",
    )
    assert (desk.project / "ran.txt").read_text() == "npm ci\n"


async def test_an_agent_that_takes_no_other_input_gets_the_alternative_in_the_denial(
    desk: Desk,
) -> None:
    desk.agent = agent(can=INFO.can - {"changed_input"})
    session = await desk.start(rules=(CI,))
    events = await play(session, {"run": "npm install"}, {"say": "I was told: {answer}"})
    (answered,) = answers(events)
    assert (answered.answer, answered.by, answered.surface) == (
        Answer("deny", note="use `echo npm ci > ran.txt` instead"),
        "policy",
        "ci",
    )
    assert session.result().text == "I was told: use `echo npm ci > ran.txt` instead"
    assert not (desk.project / "ran.txt").exists()


async def test_a_person_cannot_change_input_that_the_agent_cannot_replace(desk: Desk) -> None:
    desk.agent = agent(can=INFO.can - {"changed_input"})
    session = await desk.start(approve="ask")
    await session.prompt('[{"run": "touch asked"}]')
    async with asyncio.timeout(20):
        async for entry in session.until_idle():
            if isinstance(entry.event, PermissionRequested):
                assert not entry.event.changeable
                other = Answer("allow", input={"command": "touch other"})
                with pytest.raises(UsageError, match="does not accept changed input"):
                    session.answer(entry.event.request_id, other)
                session.answer(entry.event.request_id, Answer("allow"))
    assert (desk.project / "asked").exists()


async def test_a_rule_for_one_agent_applies_to_that_agent(desk: Desk) -> None:
    rules = (Rule("theirs", "deny", agents=("codex",)), Rule("ours", "deny", agents=("mock",)))
    session = await desk.start(rules=rules)
    assert [one.surface for one in answers(await play(session, {"run": "true"}))] == ["ours"]


async def test_two_requests_at_once_are_answered_out_of_order(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    both = {"parallel": [{"write": "a", "text": "1"}, {"write": "b", "text": "2"}]}
    await session.prompt(json.dumps([both]))
    asked: list[PermissionRequested] = []
    ends: dict[str, str] = {}
    order: list[str] = []
    async with asyncio.timeout(20):
        async for entry in session.until_idle():
            match entry.event:
                case PermissionRequested() as request:
                    asked.append(request)
                    if len(asked) == 2:
                        session.answer(asked[1].request_id, Answer("allow"))
                case RequestAnswered(request_id=request_id):
                    order.append(request_id)
                    if len(order) == 1:
                        session.answer(asked[0].request_id, Answer("deny"))
                case ToolFinished(call_id=call_id, outcome=outcome):
                    ends[call_id] = outcome
    assert order == [asked[1].request_id, asked[0].request_id]
    assert ends == {asked[0].call_id: "denied", asked[1].call_id: "completed"}
    assert not (desk.project / "a").exists()
    assert (desk.project / "b").exists()


async def test_a_second_answer_is_refused_and_changes_nothing(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    await session.prompt('[{"write": "a", "text": "1"}, {"say": "{answer}"}]')
    async with asyncio.timeout(20):
        async for entry in session.until_idle():
            if isinstance(entry.event, PermissionRequested):
                session.answer(entry.event.request_id, Answer("deny"))
                for _ in range(2):
                    with pytest.raises(RequestNotOpen):
                        session.answer(entry.event.request_id, Answer("allow"))
    assert session.result().text == "deny"
    assert not (desk.project / "a").exists()


async def test_an_option_not_offered_is_refused_and_the_request_stays_open(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    await session.prompt('[{"write": "a", "text": "1"}]')
    async with asyncio.timeout(20):
        async for entry in session.until_idle():
            if isinstance(entry.event, PermissionRequested):
                for option in ("maybe", "", "Allow", "always"):
                    with pytest.raises(UsageError, match="has no option"):
                        session.answer(entry.event.request_id, Answer(option))
                session.answer(entry.event.request_id, Answer("allow"))
    assert (desk.project / "a").exists()


async def test_an_answer_to_a_withdrawn_request_is_refused(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    steps = [{"write": "a", "text": "1", "withdraw": 0.2}, {"say": "{answer}"}]
    await session.prompt(json.dumps(steps))
    reported: list[Entry] = []
    async with asyncio.timeout(20):
        async for entry in session.until_idle():
            reported.append(entry)
            if isinstance(entry.event, RequestAnswered):
                with pytest.raises(RequestNotOpen):
                    session.answer(entry.event.request_id, Answer("allow"))
    (answered,) = answers([entry.event for entry in reported])
    assert (answered.by, answered.answer) == ("withdrawn", Answer("deny"))
    assert desk.sessions.catalog.open_requests() == []
    assert not (desk.project / "a").exists()


async def test_a_withdrawal_after_the_answer_is_no_second_answer(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    gone = {
        "type": "settled",
        "request_id": "r1.2",
        "answer": {"option": "deny"},
        "by": "withdrawn",
    }
    await session.prompt(json.dumps([{"write": "a", "text": "1"}, {"send": gone}, {"send": gone}]))
    reported: list[Event] = []
    async with asyncio.timeout(20):
        async for entry in session.until_idle():
            reported.append(entry.event)
            if isinstance(entry.event, PermissionRequested):
                assert entry.event.request_id == "r1.2"
                session.answer("r1.2", Answer("allow"))
    assert [one.by for one in answers(reported)] == ["person"]
    strays = [one.text for one in reported if isinstance(one, Notice) and one.kind == "stray"]
    assert strays == ["the agent resolved request r1.2, which was already resolved"] * 2


async def test_a_late_answer_is_a_deny_with_the_reason(desk: Desk) -> None:
    session = await desk.start(approve="ask", limits=TurnLimits(request=0.2))
    events = await play(session, {"write": "a", "text": "1"}, {"say": "{answer}"})
    (answered,) = answers(events)
    assert (answered.by, answered.answer.option) == ("timeout", "deny")
    assert session.result().text == (
        "No answer within 0.2 seconds, so this was denied. Continue without it."
    )


@pytest.mark.parametrize("id", ["", "/", "a/b", "\x00\x1b[2J", "x" * 100_000, "request r1", "☃"])
async def test_any_request_id_of_an_agent_can_be_answered(desk: Desk, id: str) -> None:
    session = await desk.start(approve="ask")
    ask = {"type": "ask", "request_id": id, "tool": "run", "input": {"command": "make"}}
    await session.prompt(json.dumps([{"send": ask}, {"sleep": 0.5}]))
    reported: list[Event] = []
    async with asyncio.timeout(20):
        async for entry in session.until_idle():
            reported.append(entry.event)
            if isinstance(entry.event, PermissionRequested):
                attached = desk.sessions.attach(desk.sessions.catalog.get(session.id))
                await attached.answer(entry.event.request_id, Answer("deny"))
    (answered,) = answers(reported)
    assert (answered.by, answered.answer) == ("person", Answer("deny"))
    assert desk.sessions.catalog.open_requests() == []
