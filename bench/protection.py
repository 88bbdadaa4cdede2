"""Cost of protected names: at session start, and per tool call of its agent.

With and without, alternating in one run: the mock agent in a repository of 300 folders and 200
refs. Other programs only slow a run down, so the fastest quarter of each is compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from tillerman.agents import load
from tillerman.core.session_options import session_spec
from tillerman.paths import find_paths
from tillerman.sessions.enforcement.protection import Protection
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.store.database import Database

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "20"))
CALLS = 40
START, CALL = 10.0, 1.0  # allowed additional ms


def prepare(root: Path) -> None:
    for number in range(300):
        (root / f"pkg{number // 20}/mod{number}").mkdir(parents=True)
    (root / ".claude").mkdir()
    (root / ".claude/settings.json").write_text("{}")
    (root / ".env").write_text("KEY=1\n")
    (root / "main.py").write_text("pass\n")
    script = "git init -q && git add main.py && git -c user.name=a -c user.email=a@b commit -qm one"
    subprocess.run(["sh", "-c", script], cwd=root, check=True)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=root, check=True, capture_output=True
    ).stdout
    for number in range(200):
        (root / f".git/refs/heads/branch{number}").write_bytes(head)


@contextmanager
def without_protection() -> Iterator[None]:
    async def nothing(*_: Any, **__: Any) -> None: ...

    kept: dict[tuple[type, str], Any] = {}
    changes: list[tuple[type, str, Callable[..., Any]]] = [
        (Protection, "begin", nothing),
        (Protection, "settle", nothing),
        (Protection, "enforcement", lambda self: {}),
    ]
    for owner, name, instead in changes:
        kept[owner, name] = getattr(owner, name)
        setattr(owner, name, instead)
    try:
        yield
    finally:
        for (owner, name), was in kept.items():
            setattr(owner, name, was)


async def one(sessions: Sessions, root: Path, folder: Path) -> tuple[float, float, float]:
    """Seconds of a start with an empty turn, of a tool call, and of CPU time at the start."""
    times, used = [], []
    for steps in ([], [{"run": "true"}] * CALLS):
        script = folder / "script.json"
        script.write_text(json.dumps([steps]))
        options = {"pace": "0", "state": str(folder / "mock"), "script": str(script)}
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        began, cpu = time.perf_counter(), time.process_time()
        session = await sessions.start(
            load("mock"),
            session_spec(cwd=root, options=options),
            RunSettings(approve="auto", environment=environment),
        )
        await session.prompt("go")
        await session.idle()
        times.append(time.perf_counter() - began)
        used.append(time.process_time() - cpu)
        await session.close()
    return times[0], max(0.0, times[1] - times[0]) / CALLS, used[0]


async def measure(folder: Path) -> dict[str, list[tuple[float, float, float]]]:
    root = folder / "project"
    prepare(root)
    paths = find_paths({"TILLERMAN_HOME": str(folder / "home")})
    database = Database.open(paths.store)
    sessions = Sessions(paths, database)
    found: dict[str, list[tuple[float, float, float]]] = {"with": [], "without": []}
    try:
        await one(sessions, root, folder)  # warm-up
        for number in range(ROUNDS):
            for how in ("with", "without") if number % 2 else ("without", "with"):
                with nullcontext() if how == "with" else without_protection():
                    found[how].append(await one(sessions, root, folder))
    finally:
        await sessions.close()
        database.close()
    return found


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tillerman-bench-") as name:
        found = asyncio.run(measure(Path(name)))
    for at, (what, limit) in enumerate((("start", START), ("tool call", CALL), ("CPU", START))):
        bare, ours = (fastest([row[at] for row in found[how]]) for how in ("without", "with"))
        middle = [median(row[at] for row in found[how]) * 1000 for how in ("without", "with")]
        more = ours - bare
        mark = "ok" if more <= limit else "TOO MUCH"
        print(
            f"{what:10} {bare:7.2f} -> {ours:7.2f} ms, {more:+.2f} (at most +{limit:g}) {mark};"
            f" medians {middle[0]:.2f} -> {middle[1]:.2f}"
        )


def fastest(seconds: list[float]) -> float:
    """The median of the fastest quarter, in ms."""
    return median(sorted(seconds)[: max(1, len(seconds) // 4)]) * 1000


if __name__ == "__main__":
    main()
