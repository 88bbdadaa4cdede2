"""Agents that break the rules while a turn is passed on: it still ends once, and is one turn."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from session_desk import Desk
from test_relay import QUOTA, Second, entries_of, notices, of, relay, said, script, start

from bridle.core.events import TurnEnded, TurnStarted
from bridle.core.failure import Failure
from bridle.sessions.relay import Relay, Wait
from bridle.sessions.session import Session
from bridle.sessions.terms import Limits, Order, Rules

FAILED = {"type": "end", "reason": "failed", "failure": {"kind": "billing", "message": "no money"}}
WORDS = {"type": "text", "id": "late", "text": "(one more thing) "}


def slowly(relay: Relay, seconds: float = 0.5) -> Relay:
    """The next agent takes a while to be found."""
    call = relay._call
    assert call

    async def later(name: str) -> Order:
        await asyncio.sleep(seconds)
        return await call(name)

    relay._call = later
    return relay


@pytest.mark.parametrize("after", [[WORDS], [FAILED], [WORDS, FAILED], [{"type": "woke"}]])
async def test_what_an_agent_says_after_its_end_does_not_end_the_turn_of_the_next(
    desk: Desk, after: list[dict[str, Any]]
) -> None:
    first = script(desk, "a", [{"send": FAILED}, *({"send": one} for one in after), {"hang": True}])
    second, third = script(desk, "b", [{"say": "Done."}]), script(desk, "c", [{"say": "Third."}])
    others = relay(desk, (Second(), second), (Second("third"), third))
    session = await start(desk, first, slowly(others))
    entries = await entries_of(session)
    assert of(entries, TurnStarted) == [TurnStarted(origin="prompt", prompt="do it")]
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert said(entries).endswith("Done.")
    assert [text for kind, text in notices(entries) if kind == "fallback"] == [
        "mock cannot go on (no money): second takes over"
    ]
