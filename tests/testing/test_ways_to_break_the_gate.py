"""The list of ways to break a gate is complete for every agent that has one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.real.gate_failures import CHANNELS, FAILURES, NOT_THERE, TWELVE
from tillerman.agents import load

GATE = Path(__file__).parents[2] / "docs" / "agents" / "gate.json"


@pytest.mark.parametrize("channel", FAILURES)
def test_every_failure_is_played_or_has_a_reason_why_it_cannot_be(channel: str) -> None:
    missing = {name for where, name in NOT_THERE if where == channel}
    assert sorted([*FAILURES[channel], *missing]) == sorted(TWELVE)


def test_every_agent_that_enforces_anything_is_attacked() -> None:
    documents = json.loads(GATE.read_text())
    assert {agent for agent in documents if load(agent).info.asks} <= CHANNELS.keys()
