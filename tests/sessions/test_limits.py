"""Limits of a prompt stop the agent, whatever it can limit itself."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from session_desk import Desk

from bridle.core.events import (
    Entry,
    MessageChunk,
    Notice,
    ToolStarted,
    TurnEnded,
    UsageReported,
)
from bridle.core.failure import Failure, exit_code
from bridle.sessions.meter import Meter
from bridle.sessions.terms import Limits

LONG = {"run": "sleep 60"}


async def play(desk: Desk, limits: Limits, *steps: dict[str, Any]) -> list[Entry]:
    session = await desk.start(limits=limits)
    began = time.monotonic()
    async with asyncio.timeout(30):
        entries = [entry async for entry in session.run(json.dumps(steps))]
    assert time.monotonic() - began < 20
    return entries


def failure(entries: list[Entry]) -> Failure | None:
    (end,) = [entry.event for entry in entries if isinstance(entry.event, TurnEnded)]
    return end.failure


def usage(tokens: int, cost: float | None = None) -> dict[str, Any]:
    told = {"input_tokens": tokens - 1, "output_tokens": 1, "cost_usd": cost}
    return {"usage": {name: value for name, value in told.items() if value is not None}}


STOPPED = {
    "cost": (
        Limits(cost=0.5),
        [usage(10, 0.3), usage(10, 0.3), LONG],
        Failure(
            kind="cost_limit",
            message="$0.6 were spent, more than 0.5",
            hint="raise --max-cost, or prompt again to go on",
        ),
    ),
    "tokens": (
        Limits(tokens=25),
        [usage(20), usage(10), LONG],
        Failure(
            kind="token_limit",
            message="30 tokens were used, more than 25",
            hint="raise --max-tokens, or prompt again to go on",
        ),
    ),
    "rounds": (
        Limits(turns=2),
        [{"run": "true"}, {"say": "Two."}, {"run": "true"}, {"say": "Three."}, LONG],
        Failure(
            kind="turn_limit",
            message="the agent began round 3 of at most 2",
            hint="raise --max-turns, or prompt again to go on",
        ),
    ),
    "time": (
        Limits(turn=0.5),
        [LONG],
        Failure(
            kind="timed_out",
            message="the turn lasted longer than 0.5 s",
            hint="raise the limit with --timeout, or [limits] in the config",
        ),
    ),
}


@pytest.mark.parametrize(("limits", "steps", "why"), STOPPED.values(), ids=STOPPED)
async def test_the_agent_is_stopped(
    desk: Desk, limits: Limits, steps: list[dict[str, Any]], why: Failure
) -> None:
    entries = await play(desk, limits, *steps, {"say": "never"})
    assert failure(entries) == why
    assert exit_code(why) == (124 if why.kind == "timed_out" else 5)
    assert "never" not in [e.event.text for e in entries if isinstance(e.event, MessageChunk)]


async def test_an_agent_that_will_not_hear_is_stopped_all_the_same(desk: Desk) -> None:
    session = await desk.start(limits=Limits(tokens=5))
    steps = [{"deaf": True}, usage(10), {"sleep": 120}]
    async with asyncio.timeout(40):
        entries = [entry async for entry in session.run(json.dumps(steps))]
    told = failure(entries)
    assert told
    assert told.kind == "token_limit"


async def test_below_its_limits_nothing_happens_and_each_prompt_counts_anew(desk: Desk) -> None:
    session = await desk.start(limits=Limits(turns=2, cost=0.5, tokens=25))
    for _ in range(3):
        steps = [usage(20, 0.4), {"run": "true"}, {"say": "Two."}]
        entries = [entry async for entry in session.run(json.dumps(steps))]
        assert failure(entries) is None


async def test_a_cost_that_the_agent_does_not_tell_is_worked_out_and_says_so(desk: Desk) -> None:
    steps = [{"send": {"type": "settings", "model": "sonnet-4.5"}}, usage(1_000_001)]
    session = await desk.start(limits=Limits(cost=1.0))
    entries = [entry async for entry in session.run(json.dumps([*steps, LONG]))]
    (told,) = [e.event for e in entries if isinstance(e.event, UsageReported)]
    assert (told.cost_usd, told.priced) == (3.000015, "2026-09-22")
    why = failure(entries)
    assert why
    assert why.kind == "cost_limit"


async def test_no_cost_is_made_up_for_a_model_without_a_price(desk: Desk) -> None:
    entries = await play(desk, Limits(), usage(1_000))
    (told,) = [e.event for e in entries if isinstance(e.event, UsageReported)]
    assert (told.cost_usd, told.priced) == (None, None)


def test_parallel_calls_are_one_round_and_subagents_count_for_nothing() -> None:
    meter = Meter(Limits(turns=1), lambda: pytest.fail("no price is asked for"))
    for event in (
        MessageChunk(message_id="m", text="I look."),
        ToolStarted(call_id="1", tool="Read", name="read", title="Read"),
        ToolStarted(call_id="2", tool="Task", name="task", title="Task"),
        ToolStarted(call_id="3", tool="Read", name="read", title="Read", parent="2"),
        MessageChunk(message_id="m2", text="Inside.", parent="2"),
    ):
        assert meter.count(event) is None
    assert meter.use(UsageReported(input_tokens=5, parent="2")) is None


async def test_what_a_turn_left_running_is_under_its_clock_too(desk: Desk) -> None:
    session = await desk.start(limits=Limits(turn=1))
    steps = [{"background": "later", "after": 60, "steps": []}, usage(5)]
    async with asyncio.timeout(30):
        entries = [entry async for entry in session.run(json.dumps(steps))]
    assert failure(entries) is None
    told = [e.event.text for e in entries if isinstance(e.event, Notice)]
    assert told == ["background work was ended: the turn lasted longer than 1 s"]
