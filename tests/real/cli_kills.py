"""Signals to a real CLI, or to the `tillerman run` that drives it, in the middle of a command."""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tests.real.desk import processes_with
from tests.real.stages import Actor
from tests.sessions.harness_kills import look_at_store
from tests.supervision.kills import end_holders, holders, new_token
from tillerman.core.events import Entry, decode_entry
from tillerman.testing.model_double.script import Say, reply
from tillerman.testing.model_double.server import ModelDouble

VICTIMS = ("harness", "agent")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
STARTS_WITHIN = 180.0  # seconds; some CLIs take five on an idle machine, and fifty on a busy one
ENDS_WITHIN = 20.0  # a turn that is cancelled gets a grace, and so does the agent's own end
GONE_WITHIN = 2.0

# One in a session of its own, one in another that has no variable of ours and holds no pipe, one
# behind a shell that is gone, and a child; the shell itself is busy. Claude Code runs no command
# that begins with a sleep.
_BUSY = (
    "setsid sleep @token & env -i setsid -f sleep @token <&- >&- 2>&- ; (sleep @token &) ; "
    "sleep @token & while :; do sleep 0.05; done"
)
SLEEPERS = _BUSY.count("sleep @token")


class Case(NamedTuple):
    level: str
    victim: str
    signal: signal.Signals


class Kill(NamedTuple):
    """One signal and its result."""

    case: Case
    moment: str
    deaf: bool  # the victim did not mind it; an agent that does not is killed
    seconds: float  # from the victim's end until nothing of the command was left
    left: tuple[str, ...]  # processes
    lost: tuple[str, ...]  # entries that were printed and are not in the store
    ends: dict[int, int]  # turn -> how many TurnEnded it has

    @property
    def good(self) -> bool:
        return not self.left and not self.lost and set(self.ends.values()) == {1}


async def run_kills(
    actor: Actor, double: ModelDouble, cases: Sequence[Case], count: int, seed: int
) -> list[Kill]:
    """`count` kills, one after the other in one home, spread evenly over the cases."""
    chance = random.Random(seed)
    cases = chance.sample(cases, len(cases))
    actor.prepare(double.base_url)
    return [
        await _kill_once(actor, double, case, chance)
        for case in itertools.islice(itertools.cycle(cases), count)
    ]


def all_cases(levels: Sequence[str]) -> list[Case]:
    return [Case(*each) for each in itertools.product(levels, VICTIMS, SIGNALS)]


async def _kill_once(actor: Actor, double: ModelDouble, case: Case, chance: random.Random) -> Kill:
    token = new_token(chance)
    scenario = f"busy{chance.getrandbits(40)}"
    command = _BUSY.replace("@token", token)
    double.scenarios[scenario] = [
        reply(Say("I begin."), actor.stage.shell(command)),
        reply(Say("It should not have ended.")),
    ]
    wanted, delay = chance.randint(1, SLEEPERS), chance.choice((0, chance.uniform(0, 1)))
    run = _Run.start(actor, double, case.level, f"@@{scenario}@@ go")
    try:
        await _within(STARTS_WITHIN, lambda: _sleepers(token) >= wanted or run.ended)
        assert _sleepers(token) >= wanted, f"the command does not run: {run.describe()}"
        await asyncio.sleep(delay)
        deaf, seconds, left = await _strike(case, run, token)
    finally:
        run.kill()
        end_holders(token)
    lost, ends = await look_at_store(run.tillerman_home, actor.project, run.printed())
    moment = f"{wanted} of {SLEEPERS} sleepers + {delay * 1000:.0f} ms"
    return Kill(case, moment, deaf, seconds, tuple(left), tuple(lost), ends)


async def _strike(case: Case, run: _Run, token: str) -> tuple[bool, float, list[str]]:
    victim = run.process.pid if case.victim == "harness" else run.program()
    _send(victim, case.signal)
    deaf = not await _within(
        ENDS_WITHIN if case.victim == "harness" else GONE_WITHIN, lambda: not _alive(victim)
    )
    if deaf and case.victim == "harness":
        return True, ENDS_WITHIN, ["the harness did not end"]
    if deaf:
        _send(victim, signal.SIGKILL)
    began = time.monotonic()
    # after its agent the harness has an end to write down, but the command has not
    spared = {run.process.pid} if case.victim == "agent" else set[int]()
    await _within(GONE_WITHIN, lambda: not run.left(token, spared))
    seconds, left = time.monotonic() - began, run.left(token, spared)
    if not left and spared:
        await _within(ENDS_WITHIN, lambda: run.ended)
        await _within(GONE_WITHIN, lambda: not run.left(token))
        left = run.left(token)
    return deaf, seconds, left


class _Run:
    """A `tillerman run`, with its output in files that need no reader."""

    def __init__(self, actor: Actor, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.tillerman_home = folder / "tillerman"
        self._actor = actor
        self._folder = folder

    @classmethod
    def start(cls, actor: Actor, double: ModelDouble, level: str, prompt: str) -> _Run:
        folder = actor.home.parent
        passed = actor.stage.environment(double.base_url, actor.version).keys() | {actor.key}
        words = ["run", "-a", actor.agent, "--json", "--approve", "auto"]
        words += [word for name in sorted(passed) for word in ("--env", name)]
        words += ["-m", actor.model] if actor.model else []
        more = {
            "TILLERMAN_HOME": str(folder / "tillerman"),
            f"TILLERMAN_AGENTS_{actor.agent.upper()}_BINARY": str(actor.program),
            "TILLERMAN_SUPERVISION": level,
        }
        with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "tillerman", *words, prompt],
                cwd=actor.project,
                env=actor.environment(double.base_url, **more),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        return cls(actor, process, folder)

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """Kills it; returns what it left, which is in the report by now."""
        if not self.ended:
            self.process.kill()
            self.process.wait()
        for pid in self._in_home():
            _send(pid, signal.SIGKILL)

    def program(self) -> int:
        """The agent's program: the oldest process in its home, whatever its title."""
        return min((pid for pid in self._in_home() if pid != self.process.pid), key=_begun)

    def left(self, token: str, spared: Collection[int] = ()) -> list[str]:
        """Running processes of the command and in the CLI's home; and of tillerman, unless it is
        spared."""
        found = {pid for pid in self._in_home() if pid not in spared} | holders(token).keys()
        if not spared:
            found |= holders(str(self.tillerman_home)).keys()
        return [f"{pid} {_read(pid, 'cmdline')[:200]!r}" for pid in found if _alive(pid)]

    def printed(self) -> list[Entry]:
        lines = (self._folder / "stdout").read_bytes().splitlines(keepends=True)
        return [decode_entry(line) for line in lines if line.endswith(b"\n")]

    def describe(self) -> str:
        ends = [(self._folder / name).read_text()[-3000:] for name in ("stdout", "stderr")]
        return "\n".join([f"exit {self.process.poll()}", *ends])

    def _in_home(self) -> list[int]:
        return [int(line.split()[0]) for line in processes_with(f"HOME={self._actor.home}")]


def _sleepers(token: str) -> int:
    wanted = f"sleep\0{token}\0".encode()
    return sum(_read(pid, "cmdline") == wanted for pid in holders(token))


def _alive(pid: int) -> bool:
    state = _read(pid, "stat").rpartition(b") ")[2][:1]
    return state not in (b"", b"Z", b"X")


def _begun(pid: int) -> float:
    """The start time in ticks of the kernel; a process that has just ended counts as the
    youngest."""
    fields = _read(pid, "stat").rpartition(b") ")[2].split()
    return int(fields[19]) if fields else math.inf


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def _within(seconds: float, condition: Callable[[], object]) -> bool:
    end = time.monotonic() + seconds
    while not (held := await asyncio.to_thread(condition)) and time.monotonic() < end:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return bool(held)
