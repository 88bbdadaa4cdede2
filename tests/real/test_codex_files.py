"""Codex's user files after turns with tillerman equal those after turns without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.bare import run_bare
from tests.real.desk import Desk, ends, run
from tests.real.home_tree import home_tree
from tests.real.stages import Actor
from tillerman.core.events import TurnEnded
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.agents("codex"), pytest.mark.timeout(90)]

COMPLETED = TurnEnded(reason="completed")


async def test_a_turn_that_writes_leaves_the_config_unchanged(any_desk: Desk) -> None:
    desk = any_desk
    config = desk.player.home / ".codex" / "config.toml"
    before = config.read_bytes()
    stage = desk.player.stage  # type: ignore[attr-defined]
    desk.double.scenarios["write"] = [
        reply(stage.write(desk.project / "made.txt", "x\n")),
        reply(stage.shell("echo y > shell.txt")),
        reply(Say("Written.")),
    ]
    session = await desk.start()

    log = await run(session, "@@write@@ go")
    await session.configure(model="gpt-5.4", mode="plan")
    await run(session, "@@write:2@@ more")

    assert ends(log) == [COMPLETED]
    assert (desk.project / "made.txt").read_text() == "x\n"
    assert (desk.project / "shell.txt").read_text() == "y\n"
    assert config.read_bytes() == before


async def test_a_bare_turn_in_a_writable_sandbox_would_have_trusted_the_folder(
    actor: Actor, double: ModelDouble
) -> None:
    double.scenarios["hello"] = [reply(Say("Hello."))]

    await run_bare(actor, double, "@@hello@@ say it", free=True)

    config = (actor.home / ".codex" / "config.toml").read_text()
    assert f'[projects."{actor.project}"]\ntrust_level = "trusted"' in config


async def test_its_files_are_those_that_a_bare_run_leaves(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    double.scenarios["hello"] = [reply(Say("Hello."))]
    await run_bare(actor, double, "@@hello@@ say it")
    volatile_files = (*actor.stage.volatile_files, ".codex/installation_id")
    bare = home_tree(actor.home, volatile_files)
    actor.home.rename(tmp_path / "bare-home")

    desk = Desk(actor, double, tmp_path)
    session = await desk.start()
    await run(session, "@@hello@@ say it")
    await desk.close()

    assert home_tree(actor.home, volatile_files) == bare
