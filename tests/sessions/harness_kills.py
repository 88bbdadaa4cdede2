"""kill -9 of a running `tillerman run` and its processes at random moments, and what is left."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.supervision.kills import STYLES, new_token, program, wait_until_gone
from tillerman.core.events import Entry, TurnEnded, TurnStarted, decode_entry
from tillerman.harness.harness import open_harness
from tillerman.paths import find_paths
from tillerman.sessions.session import read_all

VICTIMS = ("harness", "warden", "agent", "harness and warden", "warden and agent")


class Round(NamedTuple):
    """One kill and its result."""

    level: str
    style: str
    victim: str
    after: float  # seconds from the first entry to the kill
    printed: int
    left: list[str]  # processes
    lost: list[str]  # entries that were printed and are not in the store
    ends: dict[int, int]  # turn -> how many TurnEnded it has


async def run_kills(
    count: int, seed: int, folder: Path, levels: Sequence[str] = ("auto",)
) -> list[Round]:
    chance = random.Random(seed)
    cases = list(itertools.product(levels, STYLES, VICTIMS))
    chance.shuffle(cases)
    rounds = []
    for level, style, victim in itertools.islice(itertools.cycle(cases), count):
        after, printed, left = _kill_once(level, style, victim, chance, folder)
        lost, ends = await look_at_store(folder / "home", folder, printed)
        rounds.append(Round(level, style, victim, after, len(printed), left, lost, ends))
    return rounds


def _kill_once(
    level: str, style: str, victim: str, chance: random.Random, folder: Path
) -> tuple[float, list[Entry], list[str]]:
    token = new_token(chance)
    shell = program(style, token)
    command = " ".join(["exec", *(f"'{word}'" for word in [shell[0], shell[1]]), _quoted(shell[2])])
    words: list[dict[str, object]] = [{"say": f"sentence {i} of many. "} for i in range(40)]
    steps = [*words, {"run": command}, *words * 10, {"hang": True}]
    script = folder / f"{token}.json"
    script.write_text(json.dumps({"pace": 0.0005, "turns": [steps]}))
    harness = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tillerman",
            "run",
            "-a",
            "mock",
            "--json",
            "--approve",
            "auto",
            script,
        ],
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TILLERMAN_HOME": str(folder / "home"),
            "TILLERMAN_SUPERVISION": level,
        },
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert harness.stdout
    first = harness.stdout.readline()
    after = chance.choice((0.0, chance.uniform(0, 0.1), chance.uniform(0, 1.0)))
    time.sleep(after)
    for pid in _pids(harness.pid, victim.split(" and ")):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    left = [] if "harness" in victim or "warden" in victim else _end(harness, token)
    left = left or wait_until_gone(token)
    rest = b"" if harness.poll() is None and not _ended(harness) else harness.stdout.read()
    harness.stdout.close()
    printed = [decode_entry(line) for line in (first + rest).splitlines() if line.endswith(b"}")]
    script.unlink()
    return after, printed, left


def _end(harness: subprocess.Popen[bytes], token: str) -> list[str]:
    """Only the agent was killed: the harness ends the turn, and then exits."""
    with suppress(subprocess.TimeoutExpired):
        harness.wait(10)
    return [] if harness.returncode is not None else ["the harness did not end"]


def _ended(harness: subprocess.Popen[bytes]) -> bool:
    with suppress(subprocess.TimeoutExpired):
        harness.wait(10)
    if harness.returncode is None:
        harness.kill()
        harness.wait()
    return True


async def look_at_store(
    home: Path, cwd: Path, printed: list[Entry]
) -> tuple[list[str], dict[int, int]]:
    """What the next harness finds of the session: lost entries, and ends of turns."""
    paths = find_paths({"TILLERMAN_HOME": str(home)})
    async with open_harness(paths=paths, cwd=cwd) as harness:
        session = printed[0].session
        stored = {entry.seq: entry for entry in read_all(harness.sessions.log, session)}
    lost = [f"entry {e.seq} of {session}" for e in printed if stored.get(e.seq) != e]
    ends = {e.turn: 0 for e in stored.values() if isinstance(e.event, TurnStarted)}
    for entry in stored.values():
        if isinstance(entry.event, TurnEnded):
            ends[entry.turn] = ends.get(entry.turn, 0) + 1
    return lost, ends


def _pids(harness: int, victims: list[str]) -> list[int]:
    table = _process_table()
    below = [harness]
    for pid in below:
        below += [child for child, (parent, _) in table.items() if parent == pid]
    found = [harness] if "harness" in victims else []
    for name, sign in (("warden", b"tillerman.supervision"), ("agent", b"child.py")):
        if name in victims:
            found += [p for p in below[1:] if p in table and sign in table[p][1]][:1]
    return found


def _process_table() -> dict[int, tuple[int, bytes]]:
    table = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(") ")[2].split()[1])
            table[int(folder.name)] = (parent, (folder / "cmdline").read_bytes())
    return table


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
