"""A second turn on a live session, against the first turn, which starts the agent."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.overhead import claude_environment, claude_program
from tillerman.agents import load
from tillerman.core.session_options import session_spec
from tillerman.paths import find_paths
from tillerman.sessions.run_settings import RunSettings
from tillerman.sessions.service import Sessions
from tillerman.store.database import Database
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))


async def measure() -> tuple[float, float]:
    first, second = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        database = Database.open(folder / "store.db")
        sessions = Sessions(find_paths({"TILLERMAN_HOME": str(folder)}), database)
        async with ModelDouble([reply(Say("One.")), reply(Say("Two."))]) as double:
            spec = session_spec(cwd=folder, options={"binary": claude_program()})
            run_settings = RunSettings(environment=claude_environment(folder, double.base_url))
            for _ in range(ROUNDS):
                begin = time.perf_counter()
                session = await sessions.start(load("claude"), spec, run_settings)
                await session.ask("first")
                first.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                await session.ask("second")
                second.append(time.perf_counter() - begin)
                assert session.result().status == "completed"
                await session.close()
        database.close()
    return median(first), median(second)


def main() -> None:
    first, second = asyncio.run(measure())
    print(f"first turn, agent started {first * 1000:>8.0f} ms")
    print(
        f"second turn               {second * 1000:>8.0f} ms {second / first:>6.2f} x   (goal 0.25)"
    )


if __name__ == "__main__":
    main()
