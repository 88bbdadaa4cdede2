"""An agent that cannot resume its conversation continues with the session's own log."""

from __future__ import annotations

import json
import shutil
from typing import TypeVar

import pytest

from tests.sessions.session_desk import Desk
from tillerman.core.events import Entry, MessageChunk, Notice, TurnEnded, TurnStarted, UserMessage
from tillerman.sessions.session import Session

E = TypeVar("E")


async def play(session: Session, *steps: object) -> list[Entry]:
    return [entry async for entry in session.run(json.dumps(steps))]


def of(entries: list[Entry], kind: type[E]) -> list[E]:
    return [entry.event for entry in entries if isinstance(entry.event, kind)]


@pytest.mark.parametrize("turns", [1, 2, 5])
async def test_it_starts_over_with_a_handoff_summary_and_reports_it(desk: Desk, turns: int) -> None:
    session = await desk.start()
    for number in range(turns):
        await play(session, {"say": f"Heron {number}."})
    await session.close()
    shutil.rmtree(desk.folder / "mock")
    resumed = await desk.resume(session.id)
    log = await play(resumed, {"say": "I was told."})
    assert "".join(event.text for event in of(log, MessageChunk)) == "I was told."
    assert (len(of(log, TurnStarted)), of(log, TurnEnded)) == (1, [TurnEnded(reason="completed")])
    [notice] = [event for event in of(log, Notice) if event.kind == "handoff"]
    assert (notice.level, "cannot resume its conversation" in notice.text) == ("warning", True)
    [account] = of(log, UserMessage)
    assert account.how == "handoff"
    assert all(f"Heron {number}." in account.text for number in range(turns))
    log = await play(resumed, {"say": "Still here."})
    assert of(log, UserMessage) == []
    await resumed.close()
    log = await play(await desk.resume(session.id), {"say": "Resumed."})
    assert (of(log, UserMessage), of(log, TurnEnded)) == ([], [TurnEnded(reason="completed")])


async def test_a_history_lost_after_work_is_reported_at_the_next_prompt(
    desk: Desk,
) -> None:
    session = await desk.start()
    await play(session, {"say": "The bird is a heron."})
    lost = {"fail": "history_lost", "message": "another conversation was opened"}
    log = await play(session, {"say": "Hi."}, lost)
    [end] = of(log, TurnEnded)
    assert end.failure
    assert (end.reason, end.failure.kind) == ("failed", "history_lost")
    log = await play(session, {"say": "I was told."})
    [account] = of(log, UserMessage)
    assert "The bird is a heron." in account.text
