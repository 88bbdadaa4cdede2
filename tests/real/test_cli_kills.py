"""A signal in the middle of a command: no process of a real CLI is left, and its turn ends once."""

from __future__ import annotations

import signal

import pytest

from tests.real.cli_kills import Case, run_kills
from tests.real.stages import Actor
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]


@pytest.mark.newest
@pytest.mark.agents("claude", "codex", "gemini", "qwen", "opencode", "copilot")
@pytest.mark.parametrize("victim", ["harness", "agent"])
async def test_a_command_whose_harness_or_agent_is_killed_leaves_nothing(
    actor: Actor, double: ModelDouble, victim: str
) -> None:
    [kill] = await run_kills(actor, double, [Case("auto", victim, signal.SIGKILL)], 1, seed=7)

    assert kill.good, kill
