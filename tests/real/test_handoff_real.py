"""Fallback among real agents: another one finishes the interrupted work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.real.clis import pinned
from tests.real.desk import Desk, agent_text, ends, no_process_left, of
from tests.real.stages import STAGES, Actor
from tillerman.agents import load
from tillerman.core.events import AgentStarted, Entry, Notice, TurnEnded, TurnStarted, UserMessage
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import Fail, Say, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

MAX_WAIT = 100.0  # seconds; two CLIs start one after the other
TASK = "@@task@@ Write one.txt, then two.txt."


def team_of(first: Actor, agent: str, folder: Path) -> Actor:
    """Another CLI, in a separate home and in the same project."""
    cli = pinned(agent)[0]
    return Actor(STAGES[agent], cli, cli.path(), folder / "home", first.project)


@pytest.fixture
async def second_double() -> AsyncIterator[ModelDouble]:
    async with ModelDouble() as running:
        yield running


def fallback(desk: Desk) -> FallbackPolicy:
    """`desk` is that of the fallback agent."""

    async def call(name: str) -> LaunchPlan:
        spec, run_settings = desk._split({})
        return LaunchPlan(load(name), spec, run_settings)

    return FallbackPolicy(FallbackRules(), [desk.player.agent], call)


async def start(first: Desk, second: Desk) -> Session:
    spec, run_settings = first._split({})
    agent = load(first.player.agent)
    return await first.sessions.start(agent, spec, run_settings, fallback=fallback(second))


async def run(session: Session, text: str) -> list[Entry]:
    async with asyncio.timeout(MAX_WAIT):
        return [entry async for entry in session.run(text)]


@pytest.mark.parametrize("second", ["codex", "gemini", "claude"])
@pytest.mark.parametrize("fail", [Fail(429, "quota"), Fail(529)], ids=["quota", "outage"])
@pytest.mark.agents("claude", "codex")
async def test_the_next_agent_finishes_in_the_same_workspace(
    actor: Actor,
    any_desk: Desk,
    double: ModelDouble,
    second_double: ModelDouble,
    second: str,
    fail: Fail,
    tmp_path: Path,
) -> None:
    if second == actor.agent:
        pytest.skip("another agent is meant")
    other = team_of(actor, second, tmp_path / "second")
    other_desk = Desk(other, second_double, tmp_path / "second")
    one, two = actor.project / "one.txt", actor.project / "two.txt"
    double.scenarios["task"] = [
        reply(Say("I begin."), actor.stage.shell(f"echo 1 > {one}", id="c1")),
        *[fail] * 20,
    ]
    second_double.scenarios["task"] = [
        reply(other.stage.shell(f"echo 2 > {two}", id="d1")),
        reply(Say("Both are there.")),
    ]
    session = await start(any_desk, other_desk)

    log = await run(session, TASK)

    assert ends(log) == [TurnEnded(reason="completed")]
    assert (one.read_text(), two.read_text()) == ("1\n", "2\n")
    assert agent_text(log).endswith("Both are there.")
    assert of(log, TurnStarted) == [TurnStarted(origin="prompt", prompt=TASK)]
    [notice] = [event for event in of(log, Notice) if event.kind == "fallback"]
    assert notice.text.startswith(f"{actor.agent} cannot continue (")
    assert notice.text.endswith(f"): {second} takes over")
    [handed] = of(log, UserMessage)
    for part in (TASK, "echo 1 >", "> added one.txt", "I begin."):
        assert part in handed.text
    received = second_double.turns[0].body
    assert "You are taking over a task in this folder from another coding agent" in str(received)
    assert [event.agent for event in of(log, AgentStarted)][-1] == second
    result = session.result()
    assert (result.agent, result.fallback, result.status) == (second, True, "completed")
    assert [file.path for file in result.files] == ["one.txt", "two.txt"]
    row = any_desk.sessions.catalog.get(session.id)
    assert row.agent == second
    assert row.native_id

    second_double.scenarios["more"] = [reply(Say("I remember."))]
    assert agent_text(await run(session, "@@more@@ Do you remember?")).endswith("I remember.")
    assert "You are taking over" in str(second_double.turns[-1].body)

    await session.close()
    await other_desk.close()
    await no_process_left(other)
