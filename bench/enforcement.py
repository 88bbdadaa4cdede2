"""Cost of checking denied commands at execve: per exec, session start and command.

python -m bench.enforcement
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from bench.realtime import first_in_line
from tillerman.core.permission import Rule
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.exec_gate.settings import gate_settings

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))
RULES = [
    Rule("no-rm", "deny", commands=("rm -rf *",)),
    Rule("no-push", "deny", commands=("git push --force*",)),
    Rule("no-curl", "deny", commands=("curl *",)),
]
PATH = os.environ.get("PATH", os.defpath)
# spawns a program repeatedly, and prints the microseconds that each took
LOOP = """
import os, sys, time
words = sys.argv[1:]
for _ in range(100):
    begin = time.perf_counter()
    os.waitpid(os.posix_spawn(words[0], words, os.environ), 0)
    print((time.perf_counter() - begin) * 1e6)
"""
EXECS = {
    "true": ["/bin/true"],
    "a script": ["@folder/script"],
    "rm of a file": ["/bin/rm", "-f", "nothing"],
    "2,000 arguments": ["/bin/true", *map(str, range(2000))],
}

Enforcement = Mapping[str, Any]
Figures = dict[str, list[float]]


async def output(warden: WardenClient, argv: list[str], enforcement: Enforcement) -> str:
    child = await warden.spawn(
        argv, cwd="/", env={"PATH": PATH}, stdin=False, enforcement=enforcement
    )
    os.close(child.stderr)
    os.set_blocking(child.stdout, True)
    with os.fdopen(child.stdout, "rb") as out:
        text = await asyncio.to_thread(out.read)
    await child.wait()
    return text.decode()


async def execs(
    warden: WardenClient, folder: Path, enforcement: Enforcement, into: Figures
) -> None:
    for name, words in EXECS.items():
        argv = [word.replace("@folder", str(folder)) for word in words]
        said = await output(warden, [sys.executable, "-c", LOOP, *argv], enforcement)
        into.setdefault(f"exec: {name}", []).extend(float(line) / 1000 for line in said.split())


async def start(folder: Path, enforcement: Enforcement, into: Figures) -> None:
    """The first program of a warden, as an agent is."""
    marker = os.urandom(6).hex()
    warden = await WardenClient.start(records=folder / "records", marker=marker)
    begin = time.perf_counter()
    await output(warden, ["/bin/true"], enforcement)
    into.setdefault("the agent's start", []).append((time.perf_counter() - begin) * 1000)
    await warden.close()


async def command(
    warden: WardenClient, folder: Path, enforcement: Enforcement, into: Figures
) -> None:
    """A command of the workspace tools."""
    made = Path(tempfile.mkdtemp(dir=folder))
    begin = time.perf_counter()
    job = await warden.run(
        ["/bin/sh", "-c", "true"],
        cwd="/",
        env={"PATH": PATH},
        name=made.name,
        folder=made,
        cap=1000,
        enforcement=enforcement,
    )
    await job.wait()
    into.setdefault("a workspace command", []).append((time.perf_counter() - begin) * 1000)
    await asyncio.sleep(0.05)  # until the next keeper is prestarted


async def measure(folder: Path) -> dict[bool, Figures]:
    script = folder / "script"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    settings = gate_settings("on", rules=RULES, path=PATH)
    kinds: dict[bool, Enforcement] = {False: {}, True: {"exec": settings}}
    figures: dict[bool, Figures] = {False: {}, True: {}}

    async def both(rounds: int, one: Callable[[bool], Awaitable[None]]) -> None:
        for _ in range(rounds):
            for decided in (False, True):
                await one(decided)

    async with AsyncExitStack() as stack:
        wardens = {}
        for decided in (False, True):
            warden = await WardenClient.start(records=folder / "records", marker=f"bench-{decided}")
            stack.push_async_callback(warden.close)
            wardens[decided] = warden
            await output(warden, ["/bin/sh", "-c", "sleep 0.3"], kinds[decided])
        await both(ROUNDS, lambda on: execs(wardens[on], folder, kinds[on], figures[on]))
        await both(ROUNDS * 3, lambda on: start(folder, kinds[on], figures[on]))
        await both(ROUNDS * 5, lambda on: command(wardens[on], folder, kinds[on], figures[on]))
    return figures


GOALS = {"exec: true": 0.4, "the agent's start": 10.0, "a workspace command": 1.0}


def main() -> None:
    with tempfile.TemporaryDirectory() as name, first_in_line() as where:
        print(f"in turn, with and without, {where}", flush=True)
        figures = asyncio.run(measure(Path(name)))
    for name, without in figures[False].items():
        decided = figures[True][name]
        cost = median(decided) - median(without)
        late = quantiles(decided, n=20)[-1]
        goal = f"   (goal {GOALS[name]:g})" if name in GOALS else ""
        print(
            f"{name:<22}p50 {median(without):7.2f} -> {median(decided):7.2f} ms"
            f"   {cost:+6.2f}   p95 {late:7.2f} ms{goal}"
        )


if __name__ == "__main__":
    if sys.platform != "linux":
        raise SystemExit("only available on Linux")
    main()
