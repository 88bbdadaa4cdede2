"""A broken gate lets no command run; `make torture` breaks it in every other way too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.gate_failures import CHANNELS
from tests.real.gate_sides import NO_TOOL
from tests.real.gate_stand import Stand
from tests.real.gate_torture import assert_held, side_of
from tillerman.agents import load

CHEAPEST = {
    "hook": ("shim missing", "socket gone", "wrong token"),
    "pipe": ("wrong token", "garbage", "socket gone"),
}
pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.mark.parametrize("agent", CHANNELS)
async def test_no_command_runs_through_a_broken_gate(agent: str, tmp_path: Path) -> None:
    async with side_of(agent, tmp_path) as side:
        await assert_held(side, tmp_path, CHEAPEST[CHANNELS[agent]], ["shell"])


@pytest.mark.parametrize(("agent", "kind"), NO_TOOL)
async def test_agents_declared_without_tools_have_none(
    agent: str, kind: str, tmp_path: Path
) -> None:
    assert kind in load(agent).info.asks
    async with side_of(agent, tmp_path) as side:
        stand = await Stand.start(side, tmp_path / "harness")
        try:
            await stand.begin(kind)
            await stand.rest()
            assert not stand.marks.left(kind)
            assert side.marks.received("does not exist")
        finally:
            await stand.close()
