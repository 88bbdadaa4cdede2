"""Limits stop real agents that would run forever: no process and no model call continues."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.real.desk import agent_text, ends, no_process_left, of
from tests.real.stages import Actor
from tillerman.core.events import Entry, Notice, decode_entry
from tillerman.testing.model_double.script import Say, Usage, reply
from tillerman.testing.model_double.server import ModelDouble

pytestmark = [pytest.mark.real, pytest.mark.newest, pytest.mark.timeout(200)]

ROUNDS = 40  # that the model would go on for
USED = Usage(input=1000, output=100)  # in each of them


class Ran(NamedTuple):
    code: int
    log: list[Entry]
    seconds: float

    @property
    def failure(self) -> str | None:
        [end] = ends(self.log)
        return end.failure.kind if end.failure else None

    @property
    def notices(self) -> str:
        return "\n".join(notice.text for notice in of(self.log, Notice))


async def run_without_end(
    actor: Actor, double: ModelDouble, folder: Path, *words: str, prompt: str = "@@loop@@ go"
) -> Ran:
    """`tillerman run` of a task that calls the shell repeatedly, and would then print `never`."""
    actor.prepare(double.base_url)
    shell = actor.stage.shell
    double.scenarios["loop"] = [
        *(reply(shell(f"echo {n} >> rounds", id=f"c{n}"), usage=USED) for n in range(ROUNDS)),
        reply(Say("never")),
    ]
    own = {
        "TILLERMAN_HOME": str(folder / "tillerman"),
        f"TILLERMAN_AGENTS_{actor.agent.upper()}_BINARY": str(actor.program),
    }
    environment = actor.environment(double.base_url, **own)
    model = ["-m", actor.model] if actor.model else []
    command = [sys.executable, "-m", "tillerman", "run", "-a", actor.agent, *model]
    passed = [word for name in environment.keys() - own for word in ("--env", name)]
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *command,
        *("--approve=auto", "--json", *passed, *words, prompt),
        cwd=actor.project,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), 150)
    except TimeoutError:
        process.kill()
        raise
    await no_process_left(actor)
    log = [decode_entry(line) for line in out.splitlines()]
    assert process.returncode is not None
    return Ran(process.returncode, log, time.monotonic() - began)


def calls(double: ModelDouble) -> int:
    return len(double.turns)


@pytest.mark.agents("claude", "codex", "qwen", "copilot", "gemini", "opencode")
async def test_rounds(actor: Actor, double: ModelDouble, tmp_path: Path) -> None:
    ran = await run_without_end(actor, double, tmp_path, "--max-turns=3")

    assert (ran.code, ran.failure) == (5, "turn_limit"), ran
    assert 3 <= calls(double) <= 6
    assert agent_text(ran.log) == ""


@pytest.mark.agents("claude", "codex", "qwen", "copilot", "gemini", "opencode")
async def test_time(actor: Actor, double: ModelDouble, tmp_path: Path) -> None:
    double.scenarios["slow"] = [reply(actor.stage.shell("tail -f /dev/null", id="c"))]
    ran = await run_without_end(actor, double, tmp_path, "--timeout=10", prompt="@@slow@@")

    assert (ran.code, ran.failure) == (124, "timed_out"), ran
    assert ran.seconds < 60


@pytest.mark.agents("claude", "codex", "qwen", "copilot")
async def test_tokens(actor: Actor, double: ModelDouble, tmp_path: Path) -> None:
    limit = 30_000 if actor.agent == "copilot" else 4000  # it counts its context by itself
    ran = await run_without_end(actor, double, tmp_path, f"--max-tokens={limit}")

    assert (ran.code, ran.failure) == (5, "token_limit"), ran
    assert 3 <= calls(double) <= 8


@pytest.mark.agents("claude", "codex", "qwen")
async def test_cost(actor: Actor, double: ModelDouble, tmp_path: Path) -> None:
    ran = await run_without_end(actor, double, tmp_path, "--max-cost=0.01")

    assert (ran.code, ran.failure) == (5, "cost_limit"), ran
    assert 2 <= calls(double) <= 20


@pytest.mark.agents("gemini", "opencode")
async def test_an_agent_that_reports_usage_only_at_the_end_is_reported(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    """The turn's usage is checked against the limit once it is known."""
    ran = await run_without_end(
        actor, double, tmp_path, "--max-cost=0.000001", "--max-tokens=10", "--max-turns=6"
    )

    assert (ran.code, ran.failure) == (5, "turn_limit"), ran
    assert calls(double) <= 9
    assert f"{actor.agent} has reported no usage yet" in ran.notices


@pytest.mark.agents("copilot")
async def test_an_unknown_cost_is_refused_at_the_start(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    ran = await run_without_end(actor, double, tmp_path, "--max-cost=1", "--max-turns=3")

    assert (ran.code, ran.failure) == (5, "cost_limit"), ran
    assert calls(double) <= 1


@pytest.mark.agents("copilot")
async def test_a_user_who_accepts_it_continues_without_that_limit(
    actor: Actor, double: ModelDouble, tmp_path: Path
) -> None:
    ran = await run_without_end(
        actor, double, tmp_path, "--max-cost=1", "--max-turns=3", "--accept-unpriced"
    )

    assert (ran.code, ran.failure) == (5, "turn_limit"), ran
    assert "no price is known for its model: copilot continues without" in ran.notices
