"""Cost of isolation levels: `true` under each, against a bare fork and exec."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tillerman.supervision.isolation import (
    LEVELS,
    ConfinedCommand,
    IsolationLevel,
    after,
    confine,
    enforce,
    refusal,
)

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10")) * 10
TRUE = "/bin/true"


def run(confined: ConfinedCommand | None) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            if confined is None:
                os.execve(TRUE, [TRUE], {})
            else:
                enforce(confined.rules)
                os.execve(confined.argv[0], confined.argv, confined.env)
        finally:
            os._exit(127)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status


def prepare(level: IsolationLevel, workspace: Path) -> ConfinedCommand:
    env = {"PATH": os.environ["PATH"], "HOME": str(Path.home())}
    names = [workspace / name for name in (".claude", ".mcp.json", ".vscode", ".env")]
    return confine(level, workspace=workspace, argv=[TRUE], env=env, cwd=workspace, protected=names)


def took(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def main() -> None:
    workspace = Path(tempfile.mkdtemp(prefix="tillerman-bench-"))
    levels = []
    for level in LEVELS:
        canary = took(lambda level=level: refusal(level))
        if refused := refusal(level):
            print(f"{level}: {refused.reason}")
        else:
            levels.append(level)
            print(f"{level}: proved in {canary * 1e3:.0f} ms, once")
    bare: list[float] = []
    ready: dict[str, list[float]] = {level: [] for level in levels}
    runs: dict[str, list[float]] = {level: [] for level in levels}
    for _ in range(ROUNDS):
        bare.append(took(lambda: run(None)))
        for level in levels:
            begin = time.perf_counter()
            confined = prepare(level, workspace)
            ready[level].append(time.perf_counter() - begin)
            runs[level].append(took(lambda confined=confined: run(confined)))
            ready[level][-1] += took(lambda confined=confined: after(confined))
    workspace.rmdir()
    base = median(bare)
    print(f"\n{'':<10}{'harness':>12}{'start to end':>16}{'x bare':>10}")
    print(f"{'bare':<10}{'':>12}{base * 1e3:>13.1f} ms{1:>10.1f}")
    for level in levels:
        harness, whole = median(ready[level]), median(runs[level])
        print(f"{level:<10}{harness * 1e3:>9.1f} ms{whole * 1e3:>13.1f} ms{whole / base:>10.1f}")


if __name__ == "__main__":
    main()
