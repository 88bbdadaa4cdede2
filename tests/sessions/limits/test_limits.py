"""Limits of a prompt stop the agent, whatever it can limit itself."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.sessions.session_desk import Desk
from tillerman.agents.stdio.agent import StdioAgent
from tillerman.config.model_table import load_models
from tillerman.core.events import (
    Entry,
    Event,
    MessageChunk,
    Notice,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.sessions.limits.enforcer import LimitEnforcer, StopAgent
from tillerman.sessions.limits.timers import Timers
from tillerman.sessions.limits.usage_meter import UsageMeter
from tillerman.sessions.run_settings import TurnLimits
from tillerman.surfaces.exit_codes import exit_code

LONG = {"run": "sleep 60"}


async def play(desk: Desk, limits: TurnLimits, *steps: dict[str, Any]) -> list[Entry]:
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
    fields = {"input_tokens": tokens - 1, "output_tokens": 1, "cost_usd": cost}
    return {"usage": {name: value for name, value in fields.items() if value is not None}}


def usage_with_the_end(tokens: int) -> list[dict[str, Any]]:
    """Both messages in one write: the limit is seen to be exceeded when the turn is over."""
    messages = ({"type": "usage", "input_tokens": tokens}, {"type": "end", "reason": "completed"})
    return [{"line": "\n".join(map(json.dumps, messages))}, {"crash": 0}]


def begun(context: int) -> dict[str, Any]:
    return {"usage": {"context_used": context, "call": "begun"}}


STOPPED = {
    "cost": (
        TurnLimits(cost=0.5),
        [usage(10, 0.3), usage(10, 0.3), LONG],
        Failure(
            kind="cost_limit",
            message="$0.6 spent, over the limit of $0.5",
            hint="raise --max-cost, or prompt again to continue",
        ),
    ),
    "tokens": (
        TurnLimits(tokens=25),
        [usage(20), usage(10), LONG],
        Failure(
            kind="token_limit",
            message="30 tokens used, over the limit of 25",
            hint="raise --max-tokens, or prompt again to continue",
        ),
    ),
    "rounds": (
        TurnLimits(turns=2),
        [{"run": "true"}, {"say": "Two."}, {"run": "true"}, {"say": "Three."}, LONG],
        Failure(
            kind="turn_limit",
            message="the agent started model call 3, over the limit of 2",
            hint="raise --max-turns, or prompt again to continue",
        ),
    ),
    "context": (
        TurnLimits(tokens=25),
        [begun(10), begun(20), LONG],
        Failure(
            kind="token_limit",
            message="at least 30 tokens used, over the limit of 25",
            hint="raise --max-tokens, or prompt again to continue",
        ),
    ),
    "cost without a price": (
        TurnLimits(cost=5),
        [usage(10), LONG],
        Failure(
            kind="cost_limit",
            message="a cost limit of $5 cannot be enforced: no price is known for mock-quick",
            hint="set its price under [models] in the config, use --max-tokens, or continue "
            "without the limit: --accept-unpriced",
        ),
    ),
    "time": (
        TurnLimits(turn=0.5),
        [LONG],
        Failure(
            kind="timed_out",
            message="the turn exceeded its limit of 0.5 s",
            hint="raise the limit with --timeout, or [limits] in the config",
        ),
    ),
}


@pytest.mark.parametrize(("limits", "steps", "why"), STOPPED.values(), ids=STOPPED)
async def test_an_agent_over_its_limit_is_stopped(
    desk: Desk, limits: TurnLimits, steps: list[dict[str, Any]], why: Failure
) -> None:
    entries = await play(desk, limits, *steps, {"say": "never"})
    assert failure(entries) == why
    assert exit_code(why) == (124 if why.kind == "timed_out" else 5)
    assert "never" not in [e.event.text for e in entries if isinstance(e.event, MessageChunk)]


async def test_an_agent_that_ignores_a_cancel_is_killed(desk: Desk) -> None:
    assert isinstance(desk.agent, StdioAgent)
    desk.agent = StdioAgent(desk.agent.info, desk.agent.wire, grace=0.5)
    session = await desk.start(limits=TurnLimits(tokens=5))
    steps = [{"deaf": True}, usage(10), {"sleep": 120}]
    async with asyncio.timeout(40):
        entries = [entry async for entry in session.run(json.dumps(steps))]
    reported = failure(entries)
    assert reported
    assert reported.kind == "token_limit"


async def test_below_its_limits_nothing_happens_and_each_prompt_counts_from_zero(
    desk: Desk,
) -> None:
    session = await desk.start(limits=TurnLimits(turns=2, cost=0.5, tokens=25))
    for _ in range(3):
        steps = [usage(20, 0.4), {"run": "true"}, {"say": "Two."}]
        entries = [entry async for entry in session.run(json.dumps(steps))]
        assert failure(entries) is None


async def test_an_unreported_cost_is_computed_and_marked_as_computed(desk: Desk) -> None:
    steps = [{"send": {"type": "settings", "model": "sonnet-4.5"}}, usage(1_000_001)]
    session = await desk.start(limits=TurnLimits(cost=1.0))
    entries = [entry async for entry in session.run(json.dumps([*steps, LONG]))]
    (reported,) = [e.event for e in entries if isinstance(e.event, UsageReported)]
    assert (reported.cost_usd, reported.priced) == (3.000015, "2026-09-22")
    why = failure(entries)
    assert why
    assert why.kind == "cost_limit"


async def test_no_cost_is_computed_for_a_model_without_a_price(desk: Desk) -> None:
    entries = await play(desk, TurnLimits(), usage(1_000))
    (reported,) = [e.event for e in entries if isinstance(e.event, UsageReported)]
    assert (reported.cost_usd, reported.priced) == (None, None)


def test_parallel_calls_are_one_round_and_subagents_count_for_nothing() -> None:
    meter = UsageMeter(TurnLimits(turns=1), lambda: pytest.fail("no price is asked for"))
    for event in (
        MessageChunk(message_id="m", text="I look."),
        ToolStarted(call_id="1", tool="Read", name="read", title="Read"),
        ToolStarted(call_id="2", tool="Task", name="task", title="Task"),
        ToolStarted(call_id="3", tool="Read", name="read", title="Read", parent="2"),
        MessageChunk(message_id="m2", text="Inside.", parent="2"),
    ):
        assert meter.count(event) is None
    assert meter.use(UsageReported(input_tokens=5, parent="2"), None) is None


START = ToolStarted(call_id="1", tool="Bash", name="sh", title="Bash")
END = ToolFinished(call_id="1", outcome="completed")
WORDS = MessageChunk(message_id="m", text="Now.")
DONE = UsageReported(input_tokens=5, call="done")
BEGUN = UsageReported(context_used=5, call="begun")
TOTAL = UsageReported(input_tokens=5)

ROUNDS: dict[str, tuple[list[Event], int]] = {
    "by what shows": ([START, END, START, END, WORDS, TOTAL], 3),
    "told when over": ([START, END, DONE, START, END, START, END, DONE, WORDS, DONE], 3),
    "told before its calls run": ([WORDS, DONE, START, END, START, END, WORDS, DONE], 2),
    "told as they begin": ([BEGUN, START, END, START, END, BEGUN, WORDS, TOTAL], 2),
    "told and not shown": ([BEGUN, BEGUN, BEGUN, WORDS, TOTAL], 3),
    "told with words first": ([WORDS, BEGUN, START, END, WORDS, BEGUN], 2),
}


@pytest.mark.parametrize(("events", "count"), ROUNDS.values(), ids=ROUNDS)
def test_rounds_are_those_that_the_agent_reports_or_else_the_visible_ones(
    events: list[Event], count: int
) -> None:
    for limit in (count, count - 1):
        meter = UsageMeter(TurnLimits(turns=limit), lambda: pytest.fail("no price is asked for"))
        meter.begin_turn()
        received = [
            meter.use(event, None) if isinstance(event, UsageReported) else meter.count(event)
            for event in events
        ]
        assert [why.kind for why in received if why][:1] == ["turn_limit"] * (limit < count)


def test_rounds_of_the_next_agent_are_counted_its_own_way() -> None:
    meter = UsageMeter(TurnLimits(turns=3), lambda: pytest.fail("no price is asked for"))
    meter.use(DONE, None)
    meter.begin_turn()
    assert [meter.count(event) for event in (START, END, START, END)] == [None] * 4
    assert meter.count(START)


def test_a_calls_tokens_are_counted_at_their_minimum_until_the_agent_reports_them() -> None:
    models = load_models({"house": {"price": [10, 50, 1]}})
    meter = UsageMeter(TurnLimits(cost=100), lambda: models)
    for context in (1_000_000, 1_500_000):
        read = UsageReported(context_used=context, call="begun")
        assert meter.use(read, "house") is None
    assert meter.cost == 10 + 5 + 1
    meter.use(UsageReported(input_tokens=9, cost_usd=17.5), "house")
    assert meter.cost == 17.5


def test_an_agent_that_reports_negative_usage_does_not_raise_its_limit() -> None:
    meter = UsageMeter(TurnLimits(cost=1, tokens=10), lambda: pytest.fail("no price is asked for"))
    less = UsageReported(input_tokens=-100, output_tokens=-1, cached_tokens=-5, cost_usd=-10.0)
    assert meter.use(less, "m") is None

    dear = meter.use(UsageReported(input_tokens=5, cost_usd=1.5), "m")
    assert dear
    assert dear.kind == "cost_limit"
    meter.begin()
    meter.use(less, "m")
    long = meter.use(UsageReported(input_tokens=11, cost_usd=0.1), "m")
    assert long
    assert long.kind == "token_limit"


async def test_a_limit_that_cannot_be_enforced_yet_is_reported(desk: Desk) -> None:
    steps = [{"run": "true"}, {"run": "true"}, {"run": "true"}, {"say": "Done."}, usage(30, 0.5)]
    entries = await play(desk, TurnLimits(cost=9, tokens=35), *steps)
    assert failure(entries) is None
    reported = [e.event for e in entries if isinstance(e.event, Notice)]
    assert reported == [
        Notice(
            level="warning",
            kind="limit",
            text="mock has reported no usage yet: --max-cost and --max-tokens cannot be "
            "enforced until it does, but --max-turns and --timeout can",
        ),
    ]


async def test_a_model_without_a_price_is_reported_while_nothing_else_is_known(desk: Desk) -> None:
    steps = [begun(10), {"say": "Working."}, usage(30, 0.5)]
    entries = await play(desk, TurnLimits(cost=9), *steps)
    assert failure(entries) is None
    [reported] = [e.event.text for e in entries if isinstance(e.event, Notice)]
    assert reported == "no price is known for mock-quick: --max-cost cannot stop mock yet"


async def test_background_work_is_ended_if_the_limit_is_exceeded_at_the_end_of_a_turn(
    desk: Desk,
) -> None:
    session = await desk.start(limits=TurnLimits(tokens=25))
    later = {"background": "later", "after": 2, "steps": [{"say": "never"}]}
    async with asyncio.timeout(30):
        entries = [entry async for entry in session.run(json.dumps([later, usage(30)]))]
    why = failure(entries)  # if the end of the turn is received together with the usage: none
    assert why is None or why.kind == "token_limit"
    assert "never" not in [e.event.text for e in entries if isinstance(e.event, MessageChunk)]


async def test_no_queued_prompt_follows_a_turn_whose_end_shows_that_it_exceeded_its_limit(
    desk: Desk,
) -> None:
    session = await desk.start(limits=TurnLimits(tokens=25))
    await session.prompt(json.dumps([{"sleep": 3}, *usage_with_the_end(30)]))
    await session.prompt(json.dumps([{"say": "never"}]))
    async with asyncio.timeout(30):
        await session.idle()
    entries = [entry async for entry in session.until_idle()]
    assert failure(entries) is None
    assert "never" not in [e.event.text for e in entries if isinstance(e.event, MessageChunk)]
    notices = [e.event.text for e in entries if isinstance(e.event, Notice)]
    assert any("limit" in text for text in notices), notices


async def test_a_turn_that_an_agent_begins_over_its_limit_is_stopped_at_once() -> None:
    limits = TurnLimits(tokens=25)
    meter = UsageMeter(limits, lambda: pytest.fail("no price is asked for"))
    guard = LimitEnforcer(limits, meter, Timers(pytest.fail))
    assert guard.begin_turn() == ()
    used = guard.use(UsageReported(input_tokens=30), None)
    guard.end_turn()
    effects = (*used, *guard.begin_turn())
    assert [effect.why.kind for effect in effects if isinstance(effect, StopAgent)] == [
        "token_limit",
        "token_limit",
    ]
    assert len(effects) == 2


async def test_work_left_running_by_a_turn_is_under_its_time_limit_too(desk: Desk) -> None:
    session = await desk.start(limits=TurnLimits(turn=1))
    steps = [{"background": "later", "after": 60, "steps": []}, usage(5)]
    async with asyncio.timeout(30):
        entries = [entry async for entry in session.run(json.dumps(steps))]
    assert failure(entries) is None
    reported = [e.event.text for e in entries if isinstance(e.event, Notice)]
    assert reported == ["background work was stopped: the turn exceeded its limit of 1 s"]
