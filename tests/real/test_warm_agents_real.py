"""Warm agents with the real CLIs: the log, what the model is told, and what changed since."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.clis import pinned
from tests.real.desk import Desk, agent_text, ends, no_process_left, of, run, until_true
from tests.real.stages import STAGES, Actor
from tillerman.agents import load
from tillerman.core.events import AgentReady, Entry
from tillerman.sessions.prestart import Prestart
from tillerman.sessions.run_settings import LaunchPlan
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = pytest.mark.real
WORDS = "All done."


class WarmDesk(Desk):
    """The third check starts the agent, 15 s after the first session."""

    async def warm(self) -> Prestart:
        await until_true(lambda: self.sessions.warm == 1)
        head = await self.sessions.warm_agent(self.plan())
        assert head
        return head

    def plan(self) -> LaunchPlan:
        return LaunchPlan(load(self.player.agent), *self._split({}))

    async def start_with(self, head: Prestart | None) -> Session:
        return await self.sessions.start(*self.plan(), head=head)


@pytest.fixture(params=["claude", "codex"])
async def desk(
    request: pytest.FixtureRequest, double: ModelDouble, tmp_path: Path, project: Path
) -> AsyncIterator[WarmDesk]:
    cli = pinned(request.param)[0]
    actor = Actor(STAGES[request.param], cli, cli.path(), tmp_path / "home", project)
    double.scenarios["turn"] = [reply(Say(WORDS))]
    commit(project, "first-commit")
    desk = WarmDesk(actor, double, tmp_path)
    desk.sessions.keep_warm(1)
    yield desk
    await desk.close()
    await no_process_left(actor)


def commit(project: Path, message: str) -> None:
    (project / message).write_text(message)
    own = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run(["git", "add", "."], cwd=project, check=True)
    subprocess.run([*own, "commit", "-qm", message], cwd=project, check=True)


async def turn(session: Session) -> list[Entry]:
    entries = await run(session, "@@turn@@ go")
    await session.close()
    assert agent_text(entries) == WORDS
    assert [end.reason for end in ends(entries)] == ["completed"]
    return entries


def kinds(entries: list[Entry]) -> list[str]:
    """The kinds of events; an agent is ready before or after its first prompt is stored."""
    return [type(e.event).__name__ for e in entries if not isinstance(e.event, AgentReady)]


def asked(double: ModelDouble) -> list[Any]:
    """The bodies of the requests to the model since the last call."""
    bodies = [json.dumps(request.body) for request in double.requests]
    double.requests.clear()
    return bodies


async def test_a_warm_agent_says_what_a_cold_one_says(desk: WarmDesk) -> None:
    await turn(await desk.start_with(None))  # creates the agent's own files
    cold = await turn(await desk.start_with(None))
    head = await desk.warm()
    warm = await turn(await desk.start_with(head))
    assert kinds(warm) == kinds(cold)
    assert of(warm, AgentReady)[0].model == of(cold, AgentReady)[0].model


async def test_the_model_is_told_the_state_at_the_first_prompt(desk: WarmDesk) -> None:
    await turn(await desk.start_with(None))
    await until_true(lambda: desk.sessions.warm == 1)
    asked(desk.double)
    commit(desk.project, "second-commit")
    (desk.project / "AGENTS.md").write_text("instructions-of-now")
    (desk.project / "CLAUDE.md").write_text("instructions-of-now")
    assert await desk.sessions.warm_agent(desk.plan()) is None
    await turn(await desk.start_with(None))
    told = "".join(asked(desk.double))
    assert "instructions-of-now" in told
    if desk.player.agent == "claude":  # it reads the status of the repository at its start
        assert "second-commit" in told
