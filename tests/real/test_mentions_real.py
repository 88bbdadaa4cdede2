"""No agent attaches a file that a rule denies because the prompt mentions it."""

from __future__ import annotations

import asyncio
import json
import subprocess

import pytest

from tests.real.desk import Desk, run
from tests.real.stages import Actor
from tillerman.config.policy_rules import rule_of
from tillerman.testing.model_double.script import Say, reply

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

DENIED = rule_of({"deny": "no", "path": "keys.txt"}, "rules:1")


@pytest.mark.agents("claude", "claude-agent-acp")
async def test_a_denied_file_is_not_attached(actor: Actor, any_desk: Desk) -> None:
    project = any_desk.project
    (project / "keys.txt").write_text("egg of a heron\n")
    (project / "plain.txt").write_text("egg of a robin\n")
    git = ["git", "add", "keys.txt"]  # what git tracks is not hidden from the agent's processes
    await asyncio.to_thread(subprocess.run, git, cwd=project, check=True)
    any_desk.double.scenarios["mentions"] = [reply(Say("I see."))]
    session = await any_desk.start(approve="auto", rules=(DENIED,))
    await run(session, "@@mentions@@ look at @keys.txt, @./keys.txt and @plain.txt")
    received = json.dumps([request.body for request in any_desk.double.requests])
    assert "egg of a robin" in received
    assert "egg of a heron" not in received
