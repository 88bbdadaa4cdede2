"""Time that tillerman adds to a tool call of real Claude, against `claude -p` with it allowed.

A call is measured from one request to the model to the next.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from bench.overhead import claude_environment, claude_program
from bench.realtime import first_in_line
from tillerman.testing.model_double.script import ModelToolCall, Say, Step, reply
from tillerman.testing.model_double.server import ModelDouble

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "6"))
CALLS = 40
WARM = 5  # calls at the start of a turn that still fill caches
WITHIN = 120.0


def script(file: Path) -> list[Step]:
    read = ModelToolCall("Read", {"file_path": str(file)})
    return [*(reply(read) for _ in range(CALLS)), reply(Say("All done."))]


async def gaps(
    double: ModelDouble, name: str, argv: list[str], env: dict[str, str], cwd: Path
) -> list[float]:
    """Seconds from one request to the model to the next, with one tool call in between."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        f"@@{name}@@ go",
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    said = asyncio.create_task(process.communicate())
    came = []
    for step in range(CALLS + 1):
        await double.seen(name, step, within=WITHIN)
        came.append(time.perf_counter())
    out, error = await said
    if process.returncode:
        raise SystemExit(f"{argv[0]} failed: {out[-2000:]!r} {error[-2000:]!r}")
    if argv[0].endswith("tillerman") and out.count(b'"type":"request_answered"') != CALLS:
        raise SystemExit("tillerman was not asked before every call")
    return [after - before for before, after in pairwise(came)][WARM:]


async def measure(folder: Path) -> dict[str, list[float]]:
    program = claude_program()
    project = folder / "project"
    project.mkdir()
    (project / "note.txt").write_text("a note\n")
    commands = {
        "bare": [
            *(program, "-p", "--output-format", "stream-json", "--verbose"),
            *("--include-partial-messages", "--allowedTools", "Read", "--"),
        ],
        "callback": [sys.executable, "-m", "bench.plain_callback", program],
        "tillerman": [
            str(Path(sys.executable).with_name("tillerman")),
            *("run", "-a", "claude", "--approve", "ask", "--json"),
        ],
    }
    turn = script(project / "note.txt")
    scenarios = {f"{name}{round}": turn for name in commands for round in range(ROUNDS + 1)}
    found: dict[str, list[float]] = {name: [] for name in commands}
    async with ModelDouble(scenarios) as double:
        env = claude_environment(folder, double.base_url) | {
            "TILLERMAN_HOME": str(folder / "tillerman"),
            "TILLERMAN_AGENTS_CLAUDE_BINARY": program,
            "PYTHONPATH": str(Path(__file__).parents[1]),
        }
        for round in range(ROUNDS + 1):
            for name, argv in commands.items():
                each = await gaps(double, f"{name}{round}", argv, env, project)
                if round:
                    found[name].append(median(each))
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name, first_in_line() as where:
        print(f"{ROUNDS} turns of {CALLS} calls each, in turn, {where}", flush=True)
        found = asyncio.run(measure(Path(name)))
    goals = {"tillerman": "   (goal 3)"}
    for name, each in found.items():
        added = median(ours - bare for bare, ours in zip(found["bare"], each, strict=True))
        print(
            f"{name:<10}{median(each) * 1000:6.2f} ms a call"
            f"   added {added * 1000:5.2f} ms{goals.get(name, '')}"
        )


if __name__ == "__main__":
    main()
