"""A request whose harness died is not lost: it is listed, answered, and the answer is used once."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.sessions.other_owner import Owner, until
from tests.sessions.session_desk import Desk
from tillerman.core.errors import RequestNotOpen, UsageError
from tillerman.core.events import (
    Answer,
    Entry,
    Event,
    Option,
    PermissionRequested,
    RequestAnswered,
    TurnEnded,
)
from tillerman.sessions.run_settings import TurnLimits
from tillerman.sessions.session import Session

SHORT = TurnLimits(request=0.2)
WRITES = json.dumps([{"write": "note.txt", "text": "x\n"}, {"say": "Done: {answer}."}])


async def left_open(desk: Desk, steps: str) -> tuple[str, PermissionRequested]:
    """A session whose owner was killed while a request was open."""
    script = desk.folder / "left.json"
    script.write_text(json.dumps([json.loads(steps)]))
    owner = await Owner.start(desk, str(script))
    attached = desk.sessions.attach(desk.sessions.catalog.get(owner.session))
    asked = (await until(attached, PermissionRequested, [])).event
    assert isinstance(asked, PermissionRequested)
    await owner.die()
    assert await desk.sessions.recover() == [owner.session]
    return owner.session, asked


async def play(session: Session, steps: str) -> list[Entry]:
    async with asyncio.timeout(20):
        return [entry async for entry in session.run(steps)]


def events_of(entries: list[Entry], *kinds: type) -> list[Event]:
    return [entry.event for entry in entries if isinstance(entry.event, kinds)]


def answers(desk: Desk, session: str) -> list[tuple[str, str, bool]]:
    log = desk.sessions.log.since(session)
    return [(a.answer.option, a.by, a.waits) for a in events_of(log, RequestAnswered)]  # type: ignore[union-attr]


async def test_it_stays_open_though_its_turn_is_ended_once(desk: Desk) -> None:
    session, asked = await left_open(desk, WRITES)
    assert await desk.sessions.recover() == []
    (left,) = desk.sessions.catalog.open_requests()
    assert (left.session, left.request_id) == (session, asked.request_id)
    log = desk.sessions.log.since(session)
    assert [end.reason for end in events_of(log, TurnEnded)] == ["failed"]  # type: ignore[union-attr]
    assert events_of(log, RequestAnswered) == []


async def test_an_answer_is_stored_in_the_log_and_used_for_the_same_request(desk: Desk) -> None:
    session, asked = await left_open(desk, WRITES)
    row = desk.sessions.catalog.get(session)
    await desk.sessions.attach(row).answer(asked.request_id, Answer("allow"), surface="elsewhere")
    assert desk.sessions.catalog.open_requests() == []
    assert desk.sessions.log.since(session)[-1].event == RequestAnswered(
        request_id=asked.request_id,
        answer=Answer("allow"),
        by="person",
        surface="elsewhere",
        waits=True,
    )

    resumed = await desk.resume(session, approve="ask")
    entries = await play(resumed, WRITES)
    (again,) = events_of(entries, PermissionRequested)
    assert isinstance(again, PermissionRequested)
    assert events_of(entries, RequestAnswered) == [
        RequestAnswered(
            request_id=again.request_id, answer=Answer("allow"), by="person", surface="elsewhere"
        )
    ]
    assert (desk.project / "note.txt").read_text() == "x\n"
    ends = events_of(desk.sessions.log.since(session), TurnEnded)
    assert [end.reason for end in ends] == ["failed", "completed"]  # type: ignore[union-attr]


async def test_a_stored_answer_is_used_once_by_any_owner(desk: Desk) -> None:
    session, asked = await left_open(desk, WRITES)
    row = desk.sessions.catalog.get(session)
    await desk.sessions.attach(row).answer(asked.request_id, Answer("deny", note="not that"))
    twice = json.loads(WRITES)[:1] * 2 + [{"say": "{answer}"}, {"fail": "agent_failed"}]
    resumed = await desk.resume(session, approve="ask", limits=SHORT)
    await play(resumed, json.dumps(twice))
    await resumed.close()
    third = await desk.resume(session, approve="ask", limits=SHORT)
    await play(third, WRITES)
    assert answers(desk, session) == [
        ("deny", "person", True),
        ("deny", "person", False),
        ("deny", "timeout", False),
        ("deny", "timeout", False),
    ]
    assert not (desk.project / "note.txt").exists()


@pytest.mark.parametrize(
    "other",
    [
        {"write": "note.txt", "text": "y\n"},
        {"write": "other.txt", "text": "x\n"},
        {"run": "touch note.txt"},
    ],
)
async def test_another_request_does_not_get_the_answer(desk: Desk, other: dict[str, Any]) -> None:
    session, asked = await left_open(desk, WRITES)
    row = desk.sessions.catalog.get(session)
    await desk.sessions.attach(row).answer(asked.request_id, Answer("allow"))
    resumed = await desk.resume(session, approve="ask", limits=SHORT)
    entries = await play(resumed, json.dumps([other]))
    assert [answer.by for answer in events_of(entries, RequestAnswered)] == ["timeout"]  # type: ignore[union-attr]


async def test_an_answer_is_stale_once_another_turn_was_completed(desk: Desk) -> None:
    session, asked = await left_open(desk, WRITES)
    row = desk.sessions.catalog.get(session)
    await desk.sessions.attach(row).answer(asked.request_id, Answer("allow"))
    resumed = await desk.resume(session, approve="ask", limits=SHORT)
    await play(resumed, '[{"say": "Something else."}]')
    await play(resumed, WRITES)
    assert answers(desk, session)[-1] == ("deny", "timeout", False)


async def test_a_request_the_policy_now_denies_is_denied_despite_a_stored_answer(
    desk: Desk,
) -> None:
    session, asked = await left_open(desk, WRITES)
    row = desk.sessions.catalog.get(session)
    await desk.sessions.attach(row).answer(asked.request_id, Answer("allow"))
    resumed = await desk.resume(session, approve="readonly")
    await play(resumed, WRITES)
    assert answers(desk, session)[-1] == ("deny", "policy", False)
    assert not (desk.project / "note.txt").exists()


async def test_an_unanswered_request_is_withdrawn_when_the_session_continues(desk: Desk) -> None:
    session, asked = await left_open(desk, WRITES)
    resumed = await desk.resume(session, approve="auto")
    assert desk.sessions.catalog.open_requests() == []
    assert answers(desk, session) == [("deny", "withdrawn", False)]
    with pytest.raises(RequestNotOpen):
        resumed.answer(asked.request_id, Answer("allow"))


async def test_it_is_answered_once(desk: Desk) -> None:
    session, asked = await left_open(desk, WRITES)
    attached = desk.sessions.attach(desk.sessions.catalog.get(session))
    given = await asyncio.gather(
        *(attached.answer(asked.request_id, Answer(option)) for option in ("allow", "deny")),
        return_exceptions=True,
    )
    assert [type(one) for one in given].count(type(None)) == 1
    with pytest.raises(RequestNotOpen):
        await attached.answer(asked.request_id, Answer("allow"))
    assert len(answers(desk, session)) == 1


async def test_an_option_that_was_not_offered_is_refused_and_it_stays_open(desk: Desk) -> None:
    session, asked = await left_open(desk, WRITES)
    attached = desk.sessions.attach(desk.sessions.catalog.get(session))
    with pytest.raises(UsageError, match="no option 'maybe'"):
        await attached.answer(asked.request_id, Answer("maybe"))
    with pytest.raises(RequestNotOpen):
        await attached.answer("never asked", Answer("allow"))
    assert len(desk.sessions.catalog.open_requests()) == 1


async def test_an_option_of_the_dead_agent_is_accepted_by_the_next(desk: Desk) -> None:
    theirs = [
        {"id": "proceed_once", "label": "Yes", "kind": "allow"},
        {"id": "cancel", "label": "No", "kind": "deny"},
    ]
    steps = [{"write": "note.txt", "text": "x\n", "options": theirs}]
    session, asked = await left_open(desk, json.dumps(steps))
    assert asked.options[0] == Option("proceed_once", "Yes", "allow")
    attached = desk.sessions.attach(desk.sessions.catalog.get(session))
    await attached.answer(asked.request_id, Answer("proceed_once"))
    resumed = await desk.resume(session, approve="ask")
    await play(resumed, WRITES)
    assert answers(desk, session) == [("allow", "person", True), ("allow", "person", False)]
