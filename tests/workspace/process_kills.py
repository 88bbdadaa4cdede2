"""kill -9 of server, warden, keepers, commands at random moments, and a count of what is left."""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.supervision import kills
from tests.workspace.process_server import Server

STYLES = ("setsid", "double fork", "cleared env", "hydra", "stopped", "agent gone first")
VICTIMS = (
    "server",
    "warden",
    "keeper",
    "command",
    "server and warden",
    "server and keeper",
    "server and command",
    "warden and command",
    "keeper and command",
    "warden and keeper",
)
SESSION = "torture"


class Round(NamedTuple):
    """One kill, with a command of each style running, and its result."""

    level: str
    victim: str
    moment: str
    left: tuple[str, ...]  # after the lease and two seconds
    is_outside: tuple[str, ...]  # rows that are missing, or say that it still runs


def run_rounds(
    count: int,
    levels: Sequence[str],
    *,
    seed: int,
    folder: Path,
    linger: float,
    styles: Sequence[str] = STYLES,
) -> list[Round]:
    chance = random.Random(seed)
    # both together leave a subreaper's orphans without a parent and a proof of their owner
    cases = [
        (level, victim)
        for level, victim in itertools.product(levels, VICTIMS)
        if victim != "warden and keeper" or level in ("namespace", "cgroup")
    ]
    chance.shuffle(cases)
    done = []
    stages = {level: _Stage(folder / level, level, linger, chance) for level in levels}
    try:
        for level, victim in itertools.islice(itertools.cycle(cases), count):
            done.append(stages[level].kill(victim, styles))
    finally:
        for stage in stages.values():
            stage.close()
    return done


class _Stage:
    """A server and its successors at one level."""

    def __init__(self, home: Path, level: str, linger: float, chance: random.Random) -> None:
        home.mkdir()
        self._home = home
        self._level = level
        self._linger = linger
        self._chance = chance
        self._told: set[str] = set()
        self._server = self._open()

    def _open(self) -> Server:
        return Server(self._home, [SESSION], linger=self._linger, level=self._level)

    def close(self) -> None:
        self._server.stop("close")

    def kill(self, victim: str, styles: Sequence[str]) -> Round:
        chance = self._chance
        tokens = [kills.new_token(chance) for _ in styles]
        for style, token in zip(styles, tokens, strict=True):
            command = kills.program(style, token)[2]
            mode = chance.choice(("async", "background"))
            self._server.send(SESSION, "start", command, mode=mode)
        early = chance.choice((True, False))
        received = chance.randrange(len(styles)) if early else len(styles)
        for _ in range(received):
            self._receive()
        delay = chance.choice((0, chance.uniform(0, 0.08)))
        time.sleep(delay)
        who = self._who()
        for name in victim.split(" and "):
            for pid in who[name]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        allowed = 0.0
        if "server" in victim:
            self._server.close()
            allowed = self._linger
            spare: set[int] = set()
        else:
            for _ in range(len(styles) - received):
                self._receive()
            spare = {self._server.process.pid}
            self._end_rest()  # what the victim did not take along, or began after it
        left = self._wait(tokens, spare, allowed + kills.WITHIN)
        if "server" in victim:
            self._server = self._open()
        return Round(
            self._level,
            victim,
            f"{'early' if early else 'ready'} + {delay * 1000:.1f} ms",
            tuple(left),
            tuple(self._astray()),
        )

    def _receive(self) -> None:
        answer = self._server.receive()
        if "id" in answer:
            self._told.add(answer["id"])

    def _who(self) -> dict[str, list[int]]:
        server = self._server.process.pid
        wardens = _children(server)
        keepers = [pid for warden in wardens for pid in _children(warden)]
        commands = [pid for keeper in keepers for pid in _children(keeper)]
        return {"server": [server], "warden": wardens, "keeper": keepers, "command": commands}

    def _end_rest(self) -> None:
        for row in self._server.ask(SESSION, "list", "running"):
            self._server.ask(SESSION, "kill", row["id"])

    def _wait(self, tokens: Sequence[str], spare: set[int], within: float) -> list[str]:
        """Commands by their tokens; after the end of the server, wardens and keepers by their
        folder."""
        deadline = time.monotonic() + within
        wanted = [*tokens, *([] if spare else [str(self._home / "spawns")])]
        while left := {
            pid: words
            for one in wanted
            for pid, words in kills.holders(one).items()
            if pid not in spare
        }:
            if time.monotonic() > deadline:
                break
            time.sleep(0.01)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return [f"{pid} {words}" for pid, words in left.items()]

    def _astray(self) -> list[str]:
        deadline = time.monotonic() + kills.WITHIN
        while True:
            rows = {row["id"]: row["status"] for row in self._server.ask(SESSION, "list")}
            live = [f"{name} {status}" for name, status in rows.items() if status in _LIVE]
            if not live or time.monotonic() > deadline:
                return live + [f"{name} is missing" for name in self._told - rows.keys()]
            time.sleep(0.01)


_LIVE = ("starting", "running")


def _children(pid: int) -> list[int]:
    found = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += [int(word) for word in (thread / "children").read_text().split()]
    return found
