"""50 signals per real CLI in the middle of a command: to the harness, to the agent; any level."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.real.cli_kills import all_cases, run_kills
from tests.real.clis import CliError, pinned
from tests.real.stages import STAGES, Actor
from tillerman.supervision.client.supervision_levels import probe
from tillerman.testing.model_double.server import ModelDouble

KILLS = int(os.environ.get("TILLERMAN_CLI_KILLS", "50"))


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("agent", ["opencode", "qwen", "gemini", "copilot", "claude", "codex"])
async def test_nothing_is_left_of_a_killed_command_and_every_turn_ends_once(
    agent: str, tmp_path: Path
) -> None:
    seed = int.from_bytes(os.urandom(4))
    levels = [level for level, why in (await probe()).items() if why is None and level != "group"]
    async with ModelDouble() as double:
        actor = _actor(agent, tmp_path)
        kills = await run_kills(actor, double, all_cases(levels), KILLS, seed)

    bad = [kill for kill in kills if not kill.good]
    deaf = Counter(
        f"{kill.case.signal.name} to the {kill.case.victim}" for kill in kills if kill.deaf
    )
    print(
        f"{agent}: {len(kills)} signals at {', '.join(levels)}, seed {seed}; the last process gone "
        f"after {max(kill.seconds for kill in kills):.2f} s at most; not minded: {dict(deaf)}"
    )
    assert bad == []


def _actor(agent: str, folder: Path) -> Actor:
    """The newest pinned CLI with a separate home and project."""
    cli = pinned(agent)[0]
    project = folder / "project"
    environment = {"PATH": os.defpath, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q", "-b", "main", project], env=environment, check=True)
    try:
        return Actor(STAGES[agent], cli, cli.path(), folder / "home", project)
    except CliError as missing:
        pytest.fail(str(missing), pytrace=False)
