"""CPU time of an import: tillerman and claude-agent-sdk against `python -c pass`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10"))
PEER = Path(sys.prefix) / "bench"  # installed by `make bench`
STATEMENTS = (
    "pass",
    "import asyncio",
    "import tillerman",
    "from tillerman import ask",
    "import tillerman.sync",
    "import claude_agent_sdk",
)


def cpu_seconds(statement: str) -> float:
    """Of one new interpreter, in user and system mode."""
    environment = {**os.environ, "PYTHONPATH": str(PEER)}
    with subprocess.Popen([sys.executable, "-c", statement], env=environment) as program:
        _, status, used = os.wait4(program.pid, 0)
        program.returncode = os.waitstatus_to_exitcode(status)
    if program.returncode:
        raise RuntimeError(f"`{statement}` failed: `make bench` installs what it needs")
    return used.ru_utime + used.ru_stime


def main() -> None:
    statements = STATEMENTS if PEER.exists() else STATEMENTS[:-1]
    times: dict[str, list[float]] = {one: [] for one in statements}
    for _ in range(ROUNDS):
        for one in statements:
            times[one].append(cpu_seconds(one))
    bare = median(times["pass"])
    for one, each in times.items():
        more = (median(each) - bare) * 1000
        goal = "   (goal 60 ms)" if one == "import tillerman" else ""
        print(f"{one:<28}{median(each) / bare:>7.2f} x {more:>+8.1f} ms{goal}")


if __name__ == "__main__":
    main()
