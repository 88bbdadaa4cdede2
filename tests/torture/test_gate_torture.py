"""Twelve ways to break the gate of every agent: the marker of a call is never created."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.gate_failures import CHANNELS, FAILURES, impostor
from tests.real.gate_sides import classes
from tests.real.gate_stand import Stand
from tests.real.gate_torture import assert_held, side_of
from tillerman.core.events import PermissionRequested

CASES = [(agent, name) for agent in CHANNELS for name in FAILURES[CHANNELS[agent]]]


@pytest.mark.torture
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("agent", "name"), CASES)
async def test_no_call_runs_through_a_broken_gate(agent: str, name: str, tmp_path: Path) -> None:
    async with side_of(agent, tmp_path) as side:
        await assert_held(side, tmp_path, [name], classes(agent))


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize("agent", [agent for agent in CHANNELS if CHANNELS[agent] == "hook"])
async def test_an_impostor_with_the_users_rights_is_accepted_and_detected(
    agent: str, tmp_path: Path
) -> None:
    """Otherwise impostors that only lack a token, a word or the uid would prove nothing."""
    async with side_of(agent, tmp_path) as side:
        stand = await Stand.start(side, tmp_path / "harness")
        try:
            await stand.begin("shell", held=True)
            async with impostor(stand, "sound"):
                stand.release()
                await stand.rest()
            assert stand.marks.left("shell")
            # Codex asks once more, over its pipe
            assert stand.bypassed or (agent == "codex" and stand.of(PermissionRequested))
        finally:
            await stand.kill()
