"""A cost limit if the agent reports no cost and its model is known only once it runs."""

from __future__ import annotations

from typing import Any

from tests.sessions.relay_desk import Second, entries_of, of, script
from tests.sessions.session_desk import Desk
from tillerman.agents.mock import INFO
from tillerman.core.events import Entry, MessageChunk, Notice, TurnEnded
from tillerman.core.failure import Failure
from tillerman.sessions.run_settings import TurnLimits

TELLS_NO_COST = Second(can=INFO.can - {"cost"})
WORK: list[dict[str, Any]] = [
    {"sleep": 0.5},
    {"usage": {"input_tokens": 10, "output_tokens": 1}},
    {"say": "Done."},
]


async def play(
    desk: Desk, limits: TurnLimits, steps: list[dict[str, Any]] = WORK, **run_settings: Any
) -> list[Entry]:
    spec = desk.spec(script(desk, "a", steps))
    session = await desk.sessions.start(
        TELLS_NO_COST, spec, desk.run_settings(limits=limits, **run_settings)
    )
    return await entries_of(session)


async def test_the_turn_is_refused_before_the_agent_has_output_or_usage(desk: Desk) -> None:
    entries = await play(desk, TurnLimits(cost=5))
    why = Failure(
        kind="cost_limit",
        message="a cost limit of $5 cannot be enforced: no price is known for mock-quick",
        hint="set its price under [models] in the config, use --max-tokens, or continue "
        "without the limit: --accept-unpriced",
    )
    assert of(entries, TurnEnded) == [TurnEnded(reason="failed", failure=why)]
    assert of(entries, MessageChunk) == []


async def test_a_user_who_accepts_it_is_warned_at_the_start_and_served(desk: Desk) -> None:
    entries = await play(desk, TurnLimits(cost=5, accept_unpriced=True))
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    assert of(entries, Notice) == [
        Notice(
            level="warning",
            kind="limit",
            text="a cost limit of $5 cannot be enforced: no price is known for mock-quick: "
            "second continues without that limit",
        )
    ]
    kinds = [type(entry.event) for entry in entries]
    assert kinds.index(Notice) < kinds.index(MessageChunk)


async def test_a_price_set_by_the_user_enforces_the_limit(desk: Desk) -> None:
    models = {"mock-quick": {"second": "mock-quick", "price": [1, 1]}}
    entries = await play(desk, TurnLimits(cost=5), models=models)
    assert of(entries, TurnEnded) == [TurnEnded(reason="completed")]
    without_end = [*WORK[:2], {"hang": True}]
    entries = await play(desk, TurnLimits(cost=0.000_001), without_end, models=models)
    (end,) = of(entries, TurnEnded)
    assert end.failure
    assert end.failure.message == "$1.1e-05 spent, over the limit of $1e-06"
