"""An answer is for the request that was shown, whatever ids the agent uses."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO
from tillerman.agents.mock.wire import MockWire
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.core.errors import RequestNotOpen
from tillerman.core.events import Answer, Event, PermissionRequested, RequestAnswered, ToolFinished
from tillerman.sessions.permissions.request_ids import RequestIds
from tillerman.sessions.session import Session

Step = dict[str, Any]
ALWAYS = Answer("allow", remember="session")


def script(desk: Desk, *steps: Step) -> str:
    path = desk.folder / "script.json"
    path.write_text(json.dumps([steps]))
    return str(path)


def ask(command: str, call_id: str, request_id: str = "r1") -> Step:
    call = {"id": call_id, "tool": "run", "input": {"command": command}}
    return {"send": {"type": "ask", "request_id": request_id, "call_id": call_id, **call}}


async def run(session: Session, *answers: tuple[str, Answer]) -> list[Event]:
    """Each answer is given when a request with that id arrives."""
    log: list[Event] = []
    left = list(answers)
    async with asyncio.timeout(10):
        async for entry in session.run("go"):
            log.append(entry.event)
            if left and names(log)[-1:] == [left[0][0]]:
                session.answer(*left.pop(0))
    return log


def names(log: list[Event]) -> list[str]:
    return [event.request_id for event in log if isinstance(event, PermissionRequested)]


def answers(log: list[Event]) -> list[tuple[str, str, str]]:
    return [
        (event.request_id, event.answer.option, event.by)
        for event in log
        if isinstance(event, RequestAnswered)
    ]


async def test_an_answer_is_not_used_for_a_later_request_of_the_same_id(desk: Desk) -> None:
    path = script(desk, ask("make", "c1"), ask("./deploy prod", "c2"), {"sleep": 20})
    session = await desk.start(path, approve="ask")
    refused: list[str] = []
    log: list[Event] = []
    async with asyncio.timeout(10):
        async for entry in session.run("go"):
            log.append(entry.event)
            if len(names(log)) == 2 and not refused:
                with pytest.raises(RequestNotOpen) as error:
                    session.answer("r1", ALWAYS)
                refused.append(str(error.value))
                session.answer(names(log)[1], Answer("deny"))
                await session.cancel()

    assert refused
    assert names(log) == ["r1", "r1~2"]
    assert answers(log) == [("r1", "deny", "withdrawn"), ("r1~2", "deny", "person")]
    assert desk.sessions.remembered_by(desk.sessions.catalog.get(session.id)) == ()


async def pass_on(desk: Desk, session: Session, name: str, *steps: Step) -> Session:
    """Switches to an agent that counts its requests from the beginning."""
    await session.close()
    desk.agent = StdioAgent(replace(INFO, name=name), MockWire)
    return await desk.resume(session.id, script(desk, *steps), approve="ask")


async def test_the_agent_receives_the_answer_under_its_own_id(desk: Desk) -> None:
    session = await desk.start(script(desk, {"run": "touch one"}), approve="ask")
    log = await run(session, ("r1.2", Answer("allow")))
    session = await pass_on(desk, session, "second", {"run": "touch two"})

    again = await run(session, ("r1.2~2", Answer("allow")))

    assert (names(log), names(again)) == (["r1.2"], ["r1.2~2"])
    assert [e.outcome for e in again if isinstance(e, ToolFinished)] == ["completed"]
    assert (desk.project / "two").exists()


async def test_a_rule_of_the_session_is_that_of_the_request_that_was_answered(desk: Desk) -> None:
    session = await desk.start(script(desk, {"run": "sh one"}), approve="ask")
    await run(session, ("r1.2", Answer("deny")))
    session = await pass_on(desk, session, "second", {"run": "sh two"})
    await run(session, ("r1.2~2", ALWAYS))

    session = await pass_on(desk, session, "third", {"run": "sh two"})
    log = await run(session)

    assert answers(log) == [("r1.2~3", "allow", "policy")]


async def test_a_request_withdrawn_under_the_agents_id_is_closed_under_the_public_id(
    desk: Desk,
) -> None:
    odd = "\x1b[2Jr 1"
    withdrawal = {"type": "settled", "request_id": odd, "answer": {"option": "deny"}}
    path = script(desk, ask("make", "c1", odd), {"send": withdrawal | {"by": "withdrawn"}})
    session = await desk.start(path, approve="ask")

    log = await run(session)

    assert names(log) == ["2Jr-1"]
    assert answers(log) == [("2Jr-1", "deny", "withdrawn")]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("per_0af:1", "per_0af:1"),
        ('"abc"', "abc"),
        ("-rf", "rf"),
        ("a\x1b[2J b", "a-2J-b"),
        ("$(reboot)", "reboot"),
        ("r1~2", "r1-2"),
        ("", "request"),
        ("\u202e", "request"),
        ("x" * 200, "x" * 80),
    ],
)
def test_ids_can_be_typed_into_a_shell(theirs: str, ours: str) -> None:
    naming = RequestIds()
    assert naming.name(theirs, ()) == ours
    assert (naming.public_id(theirs), naming.vendor_id(ours)) == (ours, theirs)


def test_no_id_is_given_twice() -> None:
    naming = RequestIds()
    taken: set[str] = {"r~3"}
    for theirs in ("r", "r", "r~4", "r", '"r"'):
        taken.add(naming.name(theirs, taken))
    assert taken == {"r~3", "r", "r~4", "r-4", "r~5", "r~6"}
