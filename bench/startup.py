"""Startup time: `tillerman --version` against `python -c pass`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "10")) * 4


def took(argv: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def main() -> None:
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "tillerman --version": [str(Path(sys.executable).with_name("tillerman")), "--version"],
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, argv in commands.items():
            times[name].append(took(argv))
    bare = median(times["python -c pass"])
    for name, each in times.items():
        print(
            f"{name:<24}{median(each) * 1000:>8.1f} ms {median(each) / bare:>6.2f} x   (goal 1.5)"
        )


if __name__ == "__main__":
    main()
