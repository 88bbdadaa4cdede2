"""Hooks that a user has installed, in a session of tillerman: both are asked."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.real.desk import MAX_WAIT, Desk, of
from tests.real.stages import Actor
from tests.real.test_hooks_real import TRUST
from tillerman.core.events import Answer, PermissionRequested, ToolFinished
from tillerman.hooks.backup_journal import BackupJournal
from tillerman.hooks.install import install
from tillerman.hooks.install_plan import planned
from tillerman.testing.model_double.script import Say, reply

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.agents("claude", "codex", "copilot", "gemini", "opencode", "qwen"),
    pytest.mark.newest,
]
RULES = """\
approve = "ask"

[[rules]]
deny = "nobody touches this"
command = "touch *"
"""
ANSWERED_BY_THE_SESSION = {"claude"}
NOT_CALLED = {"gemini", "codex"}  # over ACP; until its user trusts it in Codex


async def outcome(desk: Desk, actor: Actor, command: str) -> str:
    """Of a command that the session's own user allows."""
    session = await desk.start(
        approve="ask",
        options=actor.stage.options,
        environment={"npm_config_fetch_retries": "0"},  # of OpenCode's own, for its plugin
    )
    desk.double.scenarios["hooked"] = [reply(actor.stage.shell(command)), reply(Say("Done."))]
    async with asyncio.timeout(MAX_WAIT):
        async for entry in session.run("@@hooked@@ go"):
            if isinstance(entry.event, PermissionRequested) and session.waits_for(
                entry.event.request_id
            ):
                session.answer(entry.event.request_id, Answer("allow"))
    return [event.outcome for event in of(desk.log(session), ToolFinished)][-1]


def settle(actor: Actor, folder: Path) -> None:
    config = actor.home / ".config/tillerman/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(RULES)
    if actor.agent in TRUST:
        name, says = TRUST[actor.agent]
        (actor.home / name).parent.mkdir(parents=True, exist_ok=True)
        (actor.home / name).write_text(json.dumps(says(str(actor.project))))
    hooks = planned(actor.agent, actor.project, "project", version=actor.version)
    install(hooks, BackupJournal(folder / "journal"))


async def test_a_denial_of_an_installed_hook_counts(
    any_desk: Desk, actor: Actor, tmp_path: Path
) -> None:
    settle(actor, tmp_path)
    await outcome(any_desk, actor, "touch denied.txt")
    runs = actor.agent in NOT_CALLED
    assert (actor.project / "denied.txt").exists() is runs


async def test_a_question_of_an_installed_hook(
    any_desk: Desk, actor: Actor, tmp_path: Path
) -> None:
    settle(actor, tmp_path)
    command = 'python3 -c \'open("asked.txt", "w")\''
    await outcome(any_desk, actor, command)
    runs = actor.agent in ANSWERED_BY_THE_SESSION | NOT_CALLED
    assert (actor.project / "asked.txt").exists() is runs
