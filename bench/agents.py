"""Every real CLI, bare against `tillerman run --json`: time to first text and end of a turn.

python -m bench.agents [AGENT …]
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.realtime import first_in_line
from tests.real.bare import run_bare
from tests.real.clis import CliError, pinned
from tests.real.stages import STAGES, Actor
from tillerman.agents.claude.cli_setup import ClaudeSetup
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

AGENTS = ("claude", "codex", "gemini", "qwen", "opencode", "copilot")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
WORDS = "Let me look."
WITHIN = 60.0


class LiveClaude(ClaudeSetup):
    """Streams its output; by default it prints nothing until the end."""

    free = (
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        *ClaudeSetup.free,
    )


class Took(NamedTuple):
    """Seconds from the start of the command."""

    words: float
    turn: float
    left: float = 0.0  # from the end of the turn to the end of the process


async def by_itself(actor: Actor, double: ModelDouble) -> Took:
    begin = time.monotonic()
    run = await run_bare(actor, double, "@@turn@@ go", free=True)
    said = zip(run.output, run.heard_at, strict=True)
    first = next(at for line, at in said if WORDS in line)
    return Took(first - begin, run.ended_at - begin)


async def by_tillerman(actor: Actor, double: ModelDouble) -> Took:
    passed = actor.stage.environment(double.base_url, actor.version).keys() | {actor.key}
    words = ["run", "-a", actor.agent, "--json", "--approve", "auto"]
    words += [word for name in sorted(passed) for word in ("--env", name)]
    words += ["-m", actor.model] if actor.model else []
    more = {
        "TILLERMAN_HOME": str(actor.home.parent / "tillerman"),
        f"TILLERMAN_AGENTS_{actor.agent.upper()}_BINARY": str(actor.program),
    }
    begin = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tillerman", *words, "@@turn@@ go"),
        cwd=actor.project,
        env=actor.environment(double.base_url, **more),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout and process.stderr
    first = turn = 0.0
    async with asyncio.timeout(WITHIN):
        async for line in process.stdout:
            if not first and b"message_chunk" in line:
                first = time.monotonic()
            if b'"type":"turn_ended","reason":"completed"' in line:
                turn = time.monotonic()
        error = await process.stderr.read()
        await process.wait()
    if not (first and turn):
        raise SystemExit(f"tillerman run -a {actor.agent} failed: {error.decode()[-2000:]}")
    return Took(first - begin, turn - begin, time.monotonic() - turn)


async def measure(agent: str, folder: Path) -> tuple[list[Took], list[Took]]:
    cli = pinned(agent)[0]
    project = folder / "project"
    project.mkdir(parents=True)
    stage = LiveClaude() if agent == "claude" else STAGES[agent]
    actor = Actor(stage, cli, cli.path(), folder / "home", project)
    script = [
        reply(Say(WORDS, chunks=1), actor.stage.shell("ls")),
        reply(Say("All done.")),
    ]
    bare, ours = [], []
    async with ModelDouble({"turn": script}) as double:
        for round in range(ROUNDS + 1):
            each = await by_itself(actor, double), await by_tillerman(actor, double)
            if round:  # the first round fills caches
                bare.append(each[0])
                ours.append(each[1])
    return bare, ours


def main(agents: Sequence[str] = ()) -> None:
    with first_in_line() as where:
        print(f"medians of {ROUNDS}, both in turn, {where}", flush=True)
        for agent in agents or AGENTS:
            with tempfile.TemporaryDirectory() as name:
                try:
                    report(agent, *asyncio.run(measure(agent, Path(name))))
                except CliError as missing:
                    print(f"{agent:<10}{missing}")


def report(agent: str, bare: list[Took], ours: list[Took]) -> None:
    words = _told([took.words for took in bare], [took.words for took in ours])
    turn = _told([took.turn for took in bare], [took.turn for took in ours])
    left = median(took.left for took in ours) * 1000
    print(f"{agent:<10}first words {words}   turn {turn}   then ends in {left:.0f} ms", flush=True)


def _told(bare: list[float], ours: list[float]) -> str:
    alone, with_us = median(bare) * 1000, median(ours) * 1000
    ratio = median(o / b for o, b in zip(ours, bare, strict=True))
    return f"{alone:5.0f} -> {with_us:5.0f} ms {ratio:5.2f} x"


if __name__ == "__main__":
    main(sys.argv[1:])
