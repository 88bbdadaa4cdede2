"""A gate that is broken lets no command run; `make torture` breaks it in every other way too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gate_failures import CHANNELS, FAILURES, NOT_THERE, TWELVE
from gate_sides import NO_TOOL
from gate_stand import Stand
from gate_torture import assert_held, side_of

from bridle.agents import load

CHEAPEST = {
    "hook": ("shim missing", "socket gone", "wrong token"),
    "pipe": ("wrong token", "garbage", "socket gone"),
}
GATE = Path(__file__).parents[2] / "docs" / "agents" / "gate.json"


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize("agent", CHANNELS)
async def test_no_command_runs_through_a_broken_gate(agent: str, tmp_path: Path) -> None:
    async with side_of(agent, tmp_path) as side:
        await assert_held(side, tmp_path, CHEAPEST[CHANNELS[agent]], ["shell"])


@pytest.mark.real
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("agent", "kind"), NO_TOOL)
async def test_what_is_said_to_have_no_tool_has_none(agent: str, kind: str, tmp_path: Path) -> None:
    assert kind in load(agent).info.asks
    async with side_of(agent, tmp_path) as side:
        stand = await Stand.start(side, tmp_path / "harness")
        try:
            await stand.begin(kind)
            await stand.rest()
            assert not stand.marks.left(kind)
            assert side.marks.heard("does not exist")
        finally:
            await stand.close()


@pytest.mark.parametrize("channel", FAILURES)
def test_every_failure_is_played_or_has_a_reason_why_it_cannot_be(channel: str) -> None:
    missing = {name for where, name in NOT_THERE if where == channel}
    assert sorted([*FAILURES[channel], *missing]) == sorted(TWELVE)


def test_every_agent_that_enforces_anything_is_broken_into() -> None:
    documents = json.loads(GATE.read_text())
    assert {agent for agent in documents if load(agent).info.asks} <= CHANNELS.keys()
