"""Twelve ways to break the gate before every agent: the mark of a call never appears."""

from __future__ import annotations

from pathlib import Path

import pytest
from gate_failures import CHANNELS, FAILURES
from gate_sides import classes
from gate_torture import assert_held, side_of

CASES = [(agent, name) for agent in CHANNELS for name in FAILURES[CHANNELS[agent]]]


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("agent", "name"), CASES)
async def test_no_call_runs_through_a_broken_gate(agent: str, name: str, tmp_path: Path) -> None:
    async with side_of(agent, tmp_path) as side:
        await assert_held(side, tmp_path, [name], classes(agent))
