"""kill -9 at random moments against trees that try to escape, and a count of what is left.

`run_kills` is the loop; the same file, run as a script, is the harness that is killed: `kills.py
LEVEL RECORDS` reads the program from standard input and prints what it started.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tillerman.core.errors import SupervisionUnavailable
from tillerman.supervision.client.orphan_sweep import sweep
from tillerman.supervision.client.warden_client import WardenClient

SOURCE = Path(__file__).resolve().parents[2] / "src"
WITHIN = 2.0

# Each is a shell program; @token is a sleep argument nobody else has, so whoever holds it in its
# own arguments is of that tree.
_HYDRA = """
import os, sys, time
end = time.monotonic() + 4
for generation in range(3000):
    if os.fork():
        os._exit(0)
    os.setsid()
    if time.monotonic() > end:
        break
"""
STYLES = {
    "child": "sleep @token & echo ready; wait",
    "setsid": "setsid sleep @token & echo ready; wait",
    "double fork": "(setsid sh -c 'sleep @token & sleep @token' &); echo ready; sleep @token",
    "cleared env": "env -i setsid -f sleep @token <&- >&- 2>&-; echo ready; sleep @token",
    "hydra": "setsid -f @python -I -S -c '@hydra' @token <&- >&- 2>&-; echo ready; sleep @token",
    "cleared env, same pipes": "env -i setsid -f sleep @token; echo ready; sleep @token",
    "stopped": "setsid sh -c 'sleep @token & kill -STOP $$; wait' & sleep @token & echo ready;"
    " kill -STOP $$; wait",
    "agent gone first": "env -i setsid -f sleep @token; setsid sleep @token & echo ready; exit 0",
}
VICTIMS = ("harness", "warden", "agent", "keeper", "harness and warden")


class Case(NamedTuple):
    level: str
    style: str
    victim: str


class LevelRefused(Exception):
    """The stage's user cannot have the level; contains the reason."""


class Kill(NamedTuple):
    """One kill and its result."""

    case: Case
    moment: str
    left: tuple[str, ...]
    seconds: float


class Stage(NamedTuple):
    """Where the harness script runs: as which user, with which interpreter and which package."""

    python: str = sys.executable
    source: Path = SOURCE
    user: int | None = None

    def popen(self, level: str, records: Path) -> subprocess.Popen[str]:
        script = self.source.parent / "tests/supervision/kills.py"
        return subprocess.Popen(
            [self.python, "-P", str(script), level, str(records)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd="/",
            env={"PYTHONPATH": str(self.source), "PATH": os.environ["PATH"]},
            user=self.user,
            group=self.user,
            extra_groups=None if self.user is None else [],
        )


HERE = Stage()


def run_kills(
    count: int, levels: Sequence[str], seed: int, stage: Stage = HERE, styles: Sequence[str] = ()
) -> list[Kill]:
    """`count` kills, spread evenly over levels, styles and victims."""
    chance = random.Random(seed)
    cases = [Case(*each) for each in itertools.product(levels, styles or STYLES, VICTIMS)]
    chance.shuffle(cases)
    with scratch(stage) as records:
        done = [
            _kill_once(case, stage, records, chance)
            for case in itertools.islice(itertools.cycle(cases), count)
        ]
        sweep(records)  # no process is left, but a killed warden leaves its records
        assert list(records.iterdir()) == []
    return done


@contextmanager
def scratch(stage: Stage) -> Iterator[Path]:
    """A folder for records that the stage's user may write."""
    folder = Path(tempfile.mkdtemp(prefix="tillerman-kills-"))
    if stage.user is not None:
        os.chown(folder, stage.user, stage.user)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def program(style: str, token: str, python: str = sys.executable) -> list[str]:
    text = STYLES[style].replace("@python", python).replace("@hydra", _HYDRA)
    return ["sh", "-c", text.replace("@token", token)]


def job(marker: str, argv: list[str]) -> str:
    """The input of the harness script."""
    return json.dumps({"marker": marker, "argv": argv}) + "\n"


def new_token(chance: random.Random) -> str:
    return f"987654.{chance.randrange(10**8, 10**9)}{os.getpid()}"


def holders(token: str) -> dict[int, str]:
    """The processes, except zombies, with the token in their arguments: programs have it in theirs,
    wardens and keepers as their marker."""
    wanted = (token.encode(), token.replace(".", "-").encode())
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if any(word in words for word in wanted):
            found[int(folder.name)] = words.replace(b"\0", b" ").decode()[-60:]
    return found


def wait_until_gone(token: str, spare: Collection[int] = (), within: float = WITHIN) -> list[str]:
    """What is left of a program, its keeper and its warden after the time allowed."""
    deadline = time.monotonic() + within
    while left := {pid: words for pid, words in holders(token).items() if pid not in spare}:
        if time.monotonic() > deadline:
            break
        time.sleep(0.005)
    return [f"{pid} {words}" for pid, words in left.items()]


def end_holders(token: str) -> list[str]:
    """Kills until no process has the token: a shell may fork between a check and a kill."""
    deadline = time.monotonic() + WITHIN
    while (left := holders(token)) and time.monotonic() < deadline:
        for pid in left:
            _kill(pid)
    return list(left.values())


def _kill_once(case: Case, stage: Stage, records: Path, chance: random.Random) -> Kill:
    token = new_token(chance)
    moment = chance.choice(("early", "ready"))
    delay = chance.choice((0, chance.uniform(0, 0.03)))
    harness = stage.popen(case.level, records)
    assert harness.stdin and harness.stdout
    try:
        argv = program(case.style, token, stage.python)
        harness.stdin.write(job(token.replace(".", "-"), argv))
        harness.stdin.flush()
        pids = {"harness": harness.pid}
        victims = case.victim.split(" and ")
        for line in harness.stdout:
            who, pid = line.split(maxsplit=1)
            if who == "refused":
                raise LevelRefused(pid.strip())
            pids[who] = int(pid)
            if who == "ready" or (moment == "early" and pids.keys() >= set(victims)):
                break
        time.sleep(delay)
        began = time.monotonic()
        for who in victims:
            _kill(pids.get(who))
        left = wait_until_gone(token, spare=set() if "warden" in victims else {pids["warden"]})
        seconds = time.monotonic() - began
    finally:
        harness.stdin.close()  # a harness that still lives ends on this
        _wait(harness)
        harness.stdout.close()
    left += [row for row in wait_until_gone(token) if row not in left]
    for row in left:
        _kill(int(row.partition(" ")[0]))
    return Kill(case, f"{moment} + {delay * 1000:.1f} ms", tuple(left), seconds)


def _kill(pid: int | None) -> None:
    if pid and pid > 1:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _wait(harness: subprocess.Popen[str]) -> None:
    try:
        harness.wait(15)
    except subprocess.TimeoutExpired:
        harness.kill()
        harness.wait()
        raise


async def _harness(level: str, records: str) -> None:
    fields = json.loads(sys.stdin.readline())
    try:
        warden = await WardenClient.start(
            level=level, records=Path(records), marker=fields["marker"]
        )
    except SupervisionUnavailable as error:
        print("refused", error.message, flush=True)
        return
    print("warden", warden.pid, flush=True)
    try:
        child = await warden.spawn(fields["argv"], cwd="/", env={"PATH": os.environ["PATH"]})
        keeper = _parent(child.pid)
        print("agent", child.pid, flush=True)
        print("keeper", keeper, flush=True)
        os.set_blocking(child.stdout, True)
        await asyncio.to_thread(os.read, child.stdout, 100)
        print("ready", 0, flush=True)
    except SupervisionUnavailable:
        print("ready", 0, flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    await warden.close()


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(") ")[2].split()[1])


if __name__ == "__main__":
    asyncio.run(_harness(*sys.argv[1:]))
