"""A real CLI whose model refuses its requests: the turn ends soon, or another agent continues."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.real.desk import Desk, of, run, until
from tests.real.stages import Actor
from tillerman.agents import load
from tillerman.core.events import AgentStarted, Notice, TurnEnded
from tillerman.core.session_options import session_spec
from tillerman.sessions.fallback.policy import FallbackPolicy
from tillerman.sessions.run_settings import FallbackRules, LaunchPlan, RunSettings
from tillerman.sessions.session import Session
from tillerman.testing.model_double.script import Fail
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(180),
    pytest.mark.newest,
    pytest.mark.agents("claude", "codex", "gemini", "qwen", "opencode", "copilot"),
]
# The number of retries that its users have; a stage allows one.
OWN_RETRIES = {"claude": {"CLAUDE_CODE_MAX_RETRIES": "10"}}
SILENT = {  # of a rate limit
    "qwen": "it says nothing of retries",
    "copilot": "it says that it asks again, but not after a rate limit",
}
LONG = 45.0  # seconds that the rate limit lasts


async def _start(actor: Actor, desk: Desk, fallback: FallbackPolicy | None = None) -> Session:
    spec, run_settings = desk._split(
        {"options": actor.stage.options, "environment": OWN_RETRIES.get(actor.agent, {})}
    )
    return await desk.sessions.start(load(actor.agent), spec, run_settings, fallback=fallback)


def _fallback_to_mock(desk: Desk) -> FallbackPolicy:
    async def call(name: str) -> LaunchPlan:
        spec = session_spec(cwd=desk.project, options={"script": "hello", "pace": "0"})
        return LaunchPlan(load(name), spec, RunSettings(approve="auto"))

    return FallbackPolicy(FallbackRules(), ["mock"], call)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_ends_the_turn_at_once_with_how_to_sign_in(
    actor: Actor, double: ModelDouble, any_desk: Desk, status: int
) -> None:
    double.scenarios["refused"] = [Fail(status, message="Forbidden: invalid x-api-key")]
    session = await _start(actor, any_desk)
    entries = await run(session, "@@refused@@ go")
    (end,) = of(entries, TurnEnded)
    assert end.failure, end
    assert (end.reason, end.failure.kind) == ("failed", "not_signed_in"), end
    assert end.failure.hint
    assert len(double.turns) <= 3, "it asked again and again"


async def test_a_rate_limit_takes_the_fallback_when_it_is_first_reported(
    actor: Actor, double: ModelDouble, any_desk: Desk
) -> None:
    if why := SILENT.get(actor.agent):
        pytest.skip(f"{actor.agent}: {why}")
    double.scenarios["busy"] = [Fail(429, message="Rate limit reached", retry_after=LONG)]
    session = await _start(actor, any_desk, _fallback_to_mock(any_desk))
    await session.prompt("@@busy@@ go")
    await until(session, Notice, lambda notice: notice.kind == "retry")
    reported = time.monotonic()
    await until(session, AgentStarted, lambda event: event.agent == "mock")
    assert time.monotonic() - reported < LONG / 3
    await session.idle()
    assert session.result().agent == "mock"


async def test_agents_declared_silent_about_retries_are_silent(
    actor: Actor, double: ModelDouble, any_desk: Desk
) -> None:
    if actor.agent not in SILENT:
        pytest.skip("it reports")
    double.scenarios["busy"] = [Fail(429, message="Rate limit reached", retry_after=1)]
    session = await _start(actor, any_desk)
    await session.prompt("@@busy@@ go")
    await _asked_twice(double)
    await session.cancel()
    await session.idle()
    log = any_desk.log(session)
    assert [notice for notice in of(log, Notice) if notice.kind == "retry"] == []


async def _asked_twice(double: ModelDouble) -> Any:
    from tests.real.desk import until_true

    await until_true(lambda: len(double.turns) >= 2)
