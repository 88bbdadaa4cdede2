"""Model, mode and preset of a session, changed while it runs."""

from __future__ import annotations

import json
from copy import copy

import pytest
from msgspec.structs import replace

from tests.sessions.session_desk import Desk
from tillerman.core.errors import Unsupported, UsageError
from tillerman.core.events import (
    MessageChunk,
    PermissionRequested,
    SettingsChanged,
    ToolFinished,
)
from tillerman.sessions.session import Session


def setting_events(desk: Desk, session: Session) -> list[SettingsChanged]:
    log = desk.sessions.log.since(session.id)
    return [entry.event for entry in log if isinstance(entry.event, SettingsChanged)]


async def test_a_setting_changed_while_the_agent_starts_reaches_it_and_is_reported_once(
    desk: Desk,
) -> None:
    session = await desk.start()
    await session.configure(model="mock-large")
    result = await session.ask(json.dumps([{"say": "I am {model}."}]))
    assert result.text == "I am mock-large."
    assert setting_events(desk, session) == [SettingsChanged(model="mock-large")]


async def test_a_mode_set_and_reset_at_once_is_reset(desk: Desk) -> None:
    session = await desk.start("permission")
    await session.configure(mode="plan")
    await session.configure(mode="agent")
    await session.ask("go")
    assert (desk.project / "note.txt").exists()
    assert setting_events(desk, session)[-1] == SettingsChanged(mode="agent")


async def test_an_agent_cannot_leave_the_mode_that_a_person_set(desk: Desk) -> None:
    session = await desk.start()
    await session.configure(mode="plan")
    steps = [{"send": {"type": "settings", "mode": "agent"}}, {"write": "a.txt", "text": "x"}]
    await session.ask(json.dumps(steps))
    log = desk.sessions.log.since(session.id)
    outcomes = [e.event.outcome for e in log if isinstance(e.event, ToolFinished)]
    assert outcomes == ["denied"]
    assert not (desk.project / "a.txt").exists()


async def test_an_agent_that_enters_a_mode_by_itself_may_leave_it_again(desk: Desk) -> None:
    session = await desk.start()
    steps = [
        {"send": {"type": "settings", "mode": "plan"}},
        {"write": "a.txt", "text": "x"},
        {"send": {"type": "settings", "mode": "agent"}},
        {"write": "b.txt", "text": "x"},
    ]
    await session.ask(json.dumps(steps))
    assert not (desk.project / "a.txt").exists()
    assert (desk.project / "b.txt").exists()
    assert setting_events(desk, session) == [
        SettingsChanged(mode="plan"),
        SettingsChanged(mode="agent"),
    ]


async def test_a_model_is_set_by_the_name_that_is_the_same_for_all(desk: Desk) -> None:
    session = await desk.start(models={"house-1": {"mock": "mock-deep"}})
    await session.configure(model="house-1")
    entries = [entry async for entry in session.run('[{"say": "{model}"}]')]
    assert [e.event.text for e in entries if isinstance(e.event, MessageChunk)] == ["mock-deep"]


WRITES = [{"write": "a.txt", "text": "x"}, {"run": "touch b.txt; curl example.invalid"}]


async def asked(session: Session) -> PermissionRequested:
    async for entry in session.entries():
        if isinstance(entry.event, PermissionRequested) and session.waits_for(
            entry.event.request_id
        ):
            return entry.event
    raise AssertionError("nothing was asked")


async def test_another_preset_applies_at_once_and_answers_open_requests(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    await session.prompt(json.dumps(WRITES))
    assert (await asked(session)).tool == "Write"
    await session.configure(approve="edits")
    command = await asked(session)
    assert (command.tool, (desk.project / "a.txt").read_text()) == ("Bash", "x")
    await session.configure(approve="readonly")
    await session.idle()
    assert setting_events(desk, session) == [
        SettingsChanged(approve="edits"),
        SettingsChanged(approve="readonly"),
    ]
    assert not (desk.project / "b.txt").exists()


async def test_another_preset_is_stored_for_the_next_resume(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    attached = desk.sessions.attach(desk.sessions.catalog.get(session.id))
    await attached.configure(approve="edits")
    await session.ask(json.dumps([{"write": "a.txt", "text": "x"}]))
    assert (desk.project / "a.txt").exists()
    assert session.transcript().approve == "edits"
    assert desk.sessions.catalog.get(session.id).settings["approve"] == "edits"


async def test_an_agent_cannot_choose_its_preset(desk: Desk) -> None:
    session = await desk.start(approve="readonly")
    steps = [{"send": {"type": "settings", "approve": "auto"}}, {"write": "a.txt", "text": "x"}]
    await session.ask(json.dumps(steps))
    assert not (desk.project / "a.txt").exists()
    assert session.transcript().approve is None
    assert desk.sessions.catalog.get(session.id).settings["approve"] == "readonly"


async def test_an_agent_that_withholds_tools_at_start_accepts_no_later_preset(
    desk: Desk,
) -> None:
    desk.agent = copy(desk.agent)
    desk.agent.info = replace(desk.agent.info, preset_at_launch=True)
    session = await desk.start(approve="ask")
    with pytest.raises(Unsupported, match="changing the preset during a session"):
        await session.configure(approve="auto")
    assert setting_events(desk, session) == []


async def test_an_unknown_preset_is_refused(desk: Desk) -> None:
    session = await desk.start(approve="ask")
    with pytest.raises(UsageError, match="editz"):
        await session.configure(approve="editz")  # type: ignore[arg-type]
    assert setting_events(desk, session) == []
