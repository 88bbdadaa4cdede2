"""Agents that violate the protocol: no hang, no turn without an end, no mismatched answer."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest
from msgspec.structs import replace

from tests.sessions.session_desk import Desk
from tillerman.core.agent import File
from tillerman.core.errors import AgentError, UsageError
from tillerman.core.events import (
    Answer,
    Entry,
    Notice,
    PermissionRequested,
    RequestAnswered,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
)
from tillerman.sessions.run_settings import TurnLimits
from tillerman.sessions.runner import turn_lifecycle
from tillerman.sessions.session import Session

FOREVER = {"send": {"type": "tasks", "tasks": [{"task_id": "b1", "title": "for ever"}]}}


def ask(request_id: str, command: str, **more: Any) -> dict[str, Any]:
    request = {"request_id": request_id, "call_id": "c", "tool": "run", "options": []}
    return {"send": {"type": "ask", "input": {"command": command}, **request, **more}}


async def play(session: Session, *steps: dict[str, Any]) -> list[Entry]:
    async with asyncio.timeout(20):
        return [entry async for entry in session.run(json.dumps(steps))]


def ends(entries: list[Entry]) -> list[int]:
    return [entry.turn for entry in entries if isinstance(entry.event, TurnEnded)]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Background work has little time to end."""
    monkeypatch.setattr(turn_lifecycle, "CANCEL_GRACE", 0.5)


@pytest.mark.usefixtures("hasty")
async def test_background_work_that_never_ends_is_bounded_by_the_turns_limit(desk: Desk) -> None:
    session = await desk.start(limits=TurnLimits(turn=0.5))
    entries = await play(session, FOREVER, {"say": "Hello."})
    assert ends(entries) == [1]
    assert "limit" in [e.event.kind for e in entries if isinstance(e.event, Notice)]


@pytest.mark.usefixtures("hasty")
async def test_background_work_that_never_ends_is_cancelled(desk: Desk) -> None:
    session = await desk.start()
    await session.prompt(json.dumps([FOREVER, {"say": "Hello."}]))
    async with asyncio.timeout(20):
        async for entry in session.entries():
            if isinstance(entry.event, TurnEnded):
                break
        await session.cancel()
        await session.idle()


async def test_a_turn_within_a_turn_is_no_turn(desk: Desk) -> None:
    session = await desk.start(limits=TurnLimits(turn=5))
    entries = await play(session, {"send": {"type": "woke"}}, {"say": "Hello."})
    assert [e.turn for e in entries if isinstance(e.event, TurnStarted)] == [1]
    assert ends(entries) == [1]


async def test_a_prompt_that_is_not_text_is_refused_and_the_session_continues(desk: Desk) -> None:
    session = await desk.start()
    with pytest.raises(UsageError):
        await session.prompt(os.fsdecode(b"caf\xe9"))
    async with asyncio.timeout(10):
        assert (await session.ask('[{"say": "Still here."}]')).text == "Still here."


async def test_an_option_of_the_kind_deny_does_not_end_the_planning(desk: Desk) -> None:
    options = [
        {"id": "go", "label": "Go", "kind": "allow"},
        {"id": "keep", "label": "Keep planning", "kind": "deny"},
    ]
    spec = replace(desk.spec(), mode="plan")
    session = await desk.sessions.start(desk.agent, spec, desk.run_settings(approve="edits"))
    steps = [
        ask("p1", "", tool="ExitPlanMode", options=options),
        {"sleep": 0.3},
        {"write": "pwned.txt", "text": "x"},
    ]
    await session.prompt(json.dumps(steps))
    async with asyncio.timeout(10):
        async for entry in session.entries():
            if isinstance(entry.event, PermissionRequested):
                session.answer(entry.event.request_id, Answer("keep"))
                break
        await session.idle()
    entries = desk.sessions.log.since(session.id)
    assert SettingsChanged(mode="agent") not in [entry.event for entry in entries]
    assert not (desk.project / "pwned.txt").exists()


async def test_a_request_cannot_stop_our_timers(desk: Desk) -> None:
    session = await desk.start(limits=TurnLimits(turn=1))
    entries = await play(session, ask("turn", "x"), ask("idle", "x"), {"hang": True})
    (end,) = [e.event for e in entries if isinstance(e.event, TurnEnded)]
    assert end.failure and end.failure.kind == "timed_out"


async def test_a_repeated_request_is_not_answered_by_the_first_ones_answer(desk: Desk) -> None:
    session = await desk.start(approve="ask", limits=TurnLimits(request=0.5))
    entries = await play(session, ask("p1", "make"), ask("p1", "make all"), {"sleep": 1})
    answers = [e.event.by for e in entries if isinstance(e.event, RequestAnswered)]
    assert answers == ["withdrawn", "timeout"]


async def test_an_agents_text_about_an_answer_breaks_nothing(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    resolved = {"request_id": "r9", "answer": {"option": "weird"}, "by": "withdrawn"}
    entries = await play(
        session, ask("r9", "x"), {"send": {"type": "settled", **resolved}}, {"say": "Hello."}
    )
    assert [e.event for e in entries if isinstance(e.event, TurnEnded)] == [
        TurnEnded(reason="completed")
    ]


async def test_a_command_line_that_is_too_long_is_an_error(desk: Desk) -> None:
    spec = replace(desk.spec(), system="x" * 400_000)
    session = await desk.sessions.start(desk.agent, spec, desk.run_settings())
    with pytest.raises(AgentError, match="cannot be started"):
        await session.prompt("hello")


async def test_files_too_large_for_the_socket_are_refused_with_their_size(desk: Desk) -> None:
    session = await desk.start("hang")
    attached = desk.sessions.attach(desk.sessions.catalog.get(session.id))
    with pytest.raises(UsageError, match="too large"):
        await attached.prompt("look", files=[File("big", "image/png", bytes(50 << 20))])
