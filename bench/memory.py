"""Memory of a whole `tillerman run` under floods: peak over idle must stay under 64 MB.

python -m bench.memory                 50 MB of each kind, and the longest lines that are decoded
python -m bench.memory full            1 GB unbroken, 5 GB of lines, 1 GB of garbage, 300 MB of JSON
python -m bench.memory 200 garbage     200 MB of garbage
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_MB = 64
FULL = {"unbroken": 1024, "lines": 5 * 1024, "garbage": 1024, "json": 300, "stderr": 1024}
LOOK = 0.01  # seconds between two samples; the kernel records the peak itself
MB = 1024 * 1024

Turn = Callable[[], list[dict[str, Any]]]  # created when it is run: some are large


@dataclass(frozen=True)
class Measured:
    code: int
    seconds: float
    peak_mb: float
    disk_mb: float  # everything that the run left
    entries: list[dict[str, Any]]  # the printed ones, if kept


def run(turn: list[dict[str, Any]], *, keep: bool = False, **environment: str) -> Measured:
    """One turn of the embedded agent in a separate process and home.

    `keep`: return the entries that it prints.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "project").mkdir()
        script = folder / "script.json"
        script.write_text(json.dumps([turn]))
        home = {
            "HOME": name,
            "TILLERMAN_HOME": f"{name}/home",
            "TILLERMAN_MOCK_STATE": f"{name}/mock",
        }
        words = [sys.executable, "-m", "tillerman", "run", "-a", "mock", "--json", str(script)]
        start = time.monotonic()
        with (folder / "printed").open("wb") as printed:
            process = subprocess.Popen(
                words,
                cwd=folder / "project",
                env={"PATH": os.environ["PATH"], **home, **environment},
                stdin=subprocess.DEVNULL,
                stdout=printed if keep else subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            peak = _peak(process)
        seconds = time.monotonic() - start
        kept = (folder / "home").rglob("*")
        disk = sum(file.stat().st_size for file in kept if file.is_file()) / MB
        return Measured(process.returncode, seconds, peak, disk, _entries(folder / "printed"))


def _peak(process: subprocess.Popen[bytes]) -> float:
    """The peak in megabytes, as the kernel reports it until the process ends."""
    status = Path(f"/proc/{process.pid}/status")
    peak = 0
    while process.poll() is None:
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                peak = max(peak, int(line.split()[1]))
        time.sleep(LOOK)
    return peak / 1024


def _entries(printed: Path) -> list[dict[str, Any]]:
    with printed.open("rb") as lines:
        return [json.loads(line) for line in lines]


def result(text: str) -> dict[str, Any]:
    """A line of the agent with a tool's output."""
    content = [{"type": "text", "text": text}]
    said = {"type": "result", "call_id": "c1", "outcome": "completed", "content": content}
    return {"line": json.dumps(said, ensure_ascii=False)}


def call(values: str) -> dict[str, Any]:
    """A line of the agent that calls a tool with these JSON values."""
    return {"line": f'{{"type":"call","id":"c1","tool":"x","input":{{"values":[{values}]}}}}'}


PROSE = "A quick brown fox jumps over the lazy dog. "
LONGEST: dict[str, Turn] = {  # within the line cap, 12 MB by default
    "a result of 11.9 MB": lambda: [result(PROSE * int(11.9 * MB / len(PROSE)))],
    "five of them": lambda: [result(PROSE * int(11.9 * MB / len(PROSE)))] * 5,
    "8 MB with one emoji": lambda: [result("\N{ROCKET}" + PROSE * int(8 * MB / len(PROSE)))],
    "11 MB with one emoji": lambda: [result("\N{ROCKET}" + PROSE * int(11 * MB / len(PROSE)))],
    "11 MB of empty lists": lambda: [call(",".join(["[]"] * 3_700_000))],
    "11 MB of short words": lambda: [call(",".join(['"ab"'] * 2_200_000))],
}


def floods(sizes: dict[str, int]) -> dict[str, Turn]:
    def flood(kind: str, size: int) -> Turn:
        return lambda: [{"flood": size, "of": kind}]

    return {f"{size} MB {kind}": flood(kind, size) for kind, size in sizes.items()}


def main(words: list[str] | None = None) -> int:
    match words or []:
        case ["full"]:
            turns = {**floods(FULL), **LONGEST}
        case [size, *kinds]:
            turns = floods({kind: int(size) for kind in kinds or FULL})
        case _:
            turns = {**floods(dict.fromkeys(FULL, 50)), **LONGEST}
    idle = run([{"say": "hello"}])
    print(f"idle: {idle.peak_mb:.1f} MB")
    worst = 0.0
    for name, turn in turns.items():
        it = run(turn())
        over = it.peak_mb - idle.peak_mb
        worst = max(worst, over) if it.code == 0 else float("inf")
        print(
            f"{name:22} {it.seconds:7.1f} s  peak +{over:5.1f} MB"
            f"  left on disk {it.disk_mb - idle.disk_mb:6.1f} MB  exit {it.code}",
            flush=True,
        )
    print(f"worst: +{worst:.1f} MB over idle; the limit is {LIMIT_MB} MB")
    return 0 if worst < LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
