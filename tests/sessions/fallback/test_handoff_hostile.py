"""Agents that violate the protocol during a fallback: the turn still ends once, and is one turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.agents.plain import LONG_LIVED, python
from tests.sessions.relay_desk import (
    Second,
    agent_text,
    entries_of,
    fallback,
    notices,
    of,
    script,
    start,
)
from tests.sessions.session_desk import Desk
from tillerman.core.events import TurnEnded, TurnStarted
from tillerman.core.failure import Failure
from tillerman.sessions.fallback.policy import FallbackPolicy, RetryAfter
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan, TurnLimits

FAILED = {"type": "end", "reason": "failed", "failure": {"kind": "billing", "message": "no money"}}
WORDS = {"type": "text", "id": "late", "text": "(one more thing) "}


def slowly(fallback: FallbackPolicy, seconds: float = 0.5) -> FallbackPolicy:
    """Finding the next agent takes a while."""
    call = fallback._call
    assert call

    async def later(name: str) -> LaunchPlan:
        await asyncio.sleep(seconds)
        return await call(name)

    fallback._call = later
    return fallback


@pytest.mark.parametrize("after", [[WORDS], [FAILED], [WORDS, FAILED], [{"type": "woke"}]])
async def test_output_of_an_agent_after_its_end_does_not_end_the_turn_of_the_next(
    desk: Desk, after: list[dict[str, Any]]
) -> None:
    first = script(desk, "a", [{"send": FAILED}, *({"send": one} for one in after), {"hang": True}])
    second, third = script(desk, "b", [{"say": "Done."}]), script(desk, "c", [{"say": "Third."}])
    others = fallback(desk, (Second(), second), (Second("third"), third))
    session = await start(desk, first, slowly(others))
    entries = await entries_of(session)
    assert of(entries, TurnStarted) == [TurnStarted(origin="prompt", prompt="do it")]
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert agent_text(entries).endswith("Done.")
    assert [text for kind, text in notices(entries) if kind == "fallback"] == [
        "mock cannot continue (no money): second takes over"
    ]


@pytest.mark.parametrize("after", [-5.0, 0.0, 1e-9])
def test_an_agent_that_is_always_rate_limited_is_not_retried_for_ever(after: float) -> None:
    limited = Failure(kind="rate_limited", message="later", retry_after=after)
    asked = FallbackPolicy(FallbackRules(rate_limit="wait", wait=900))
    waits = [asked.next_step(limited, visible=False) for _ in range(200)]
    assert None in waits
    assert all(way.seconds >= 0 for way in waits if isinstance(way, RetryAfter))


async def test_a_limit_of_time_stops_an_agent_that_reads_nothing_of_a_long_prompt(
    desk: Desk,
) -> None:
    spec = python("time.sleep(600)", desk.project)
    session = await desk.sessions.start(
        LONG_LIVED, spec, desk.run_settings(limits=TurnLimits(turn=0.5))
    )
    entries = await entries_of(session, "x" * 3_000_000)
    (end,) = of(entries, TurnEnded)
    assert end.failure and end.failure.kind == "timed_out"


async def test_a_cancel_ends_an_agent_that_reads_nothing_of_a_long_prompt(desk: Desk) -> None:
    spec = python("time.sleep(600)", desk.project)
    session = await desk.sessions.start(LONG_LIVED, spec, desk.run_settings())
    prompting = asyncio.create_task(session.prompt("x" * 3_000_000))
    async with asyncio.timeout(15):
        async for entry in session.entries():
            if isinstance(entry.event, TurnStarted):
                break
        await session.cancel()
        await prompting
        await session.idle()
    assert session.result().status == "cancelled"
