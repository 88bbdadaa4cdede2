"""A run whose process is killed at any moment goes on, and repeats no finished step."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from tests.pipelines.run_desk import APPROVE, Desk, kill
from tillerman.pipelines.engine import Engine
from tillerman.pipelines.run_state import ENDED, RunSpec
from tillerman.pipelines.steps import ParallelStep, ReviewStep

SEED = int(os.environ.get("TILLERMAN_KILL_SEED", "0")) or random.randrange(1 << 30)


def six_steps(desk: Desk) -> RunSpec:
    """Six steps with a parallel part and a gate; agents that resume, and agents that restart."""
    return desk.spec(
        desk.agent("plan", {"sleep": 0.1}),
        ParallelStep(
            id="both",
            needs=("plan",),
            steps=(
                desk.command("left", "sleep 0.2"),
                desk.agent("right", {"sleep": 0.1}, interrupted="restart"),
            ),
        ),
        ReviewStep(id="gate", needs=("both",), message="Is it good?"),
        desk.command("check", "sleep 0.1", needs=("gate",)),
        desk.agent("end", needs=("check",), interrupted="restart"),
    )


class Observer:
    """Kills the processes of a run, and notes which steps were finished then."""

    def __init__(self, desk: Desk, engine: Engine, run: str, spec: RunSpec) -> None:
        self.desk, self.engine, self.run, self.spec = desk, engine, run, spec
        self.kills = 0
        self.repeated: list[str] = []
        self._finished: set[str] = set()
        self._seen = 0

    async def run_with_kills(self, chance: random.Random, most: int, *more: str) -> None:
        while True:
            owner = self.desk.owner(self.run, self.spec, *more)
            stop = self.kills < most and await self._moment(chance, owner)
            if not stop:
                await self._end(owner)
            else:
                kill(owner)
                self.kills += 1
            self._compare()
            if owner.stdout:
                owner.stdout.close()
            found = self.engine.store.run(self.run)
            if found and found.status in ENDED:
                return
            assert stop, "it ended before the run had"

    async def _end(self, owner: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 120
        while owner.poll() is None:
            assert time.monotonic() < deadline, self.engine.store.steps(self.run)
            await self._approve()
            await asyncio.sleep(0.05)

    async def _moment(self, chance: random.Random, owner: object) -> bool:
        """Waits for a random moment, or until one more step has finished; False: the run ended."""
        until = time.monotonic() + chance.uniform(0.6, 5.0)
        finishes = chance.random() < 0.6
        before = len(self.engine.store.results(self.run))
        latest = time.monotonic() + 40
        while time.monotonic() < (latest if finishes else until):
            found = self.engine.store.run(self.run)
            if found and found.status in ENDED:
                return False
            if finishes and len(self.engine.store.results(self.run)) > before:
                await asyncio.sleep(chance.choice((0.0, 0.0, 0.005, 0.02)))
                return True
            await self._approve()
            await asyncio.sleep(0.002)
        return True

    async def _approve(self) -> None:
        for gate in self.engine.store.gates(self.run, unanswered=True):
            await self.engine.answer(self.run, gate.path, APPROVE)

    def _compare(self) -> None:
        """No step that was finished at the last kill may have started since."""
        started = self.desk.started()
        self.repeated += [one for one in started[self._seen :] if one in self._finished]
        self._seen = len(started)
        done = self.engine.store.results(self.run)
        self._finished = {path.rpartition("/")[2] for path in done}


async def observed(desk: Desk, seed: int, kills: int, *more: str) -> Observer:
    chance = random.Random(seed)
    async with desk.control() as engine:
        observer = Observer(desk, engine, f"run{seed}", six_steps(desk))
        await observer.run_with_kills(chance, kills, *more)
        await ended_right(observer)
        return observer


async def ended_right(observer: Observer) -> None:
    found = observer.engine.store.run(observer.run)
    assert found
    assert found.status == "completed", found
    files = observer.desk.git("ls-tree", "--name-only", "main").split()
    assert files == ["README", "check.txt", "end.txt", "left.txt", "plan.txt", "right.txt"]
    for name in ("check", "end", "left", "plan", "right"):
        assert observer.desk.git("show", f"main:{name}.txt") == name
    assert observer.desk.git("rev-list", "--count", "main") == "2"
    await observer.desk.nothing_left()


async def test_a_run_that_is_killed_at_random_moments_ends_right(tmp_path: Path) -> None:
    observer = await observed(Desk(tmp_path), SEED, 3)
    assert observer.repeated == [], f"seed {SEED}"
    assert observer.kills > 0


@pytest.mark.torture
async def test_two_hundred_kills(tmp_path: Path) -> None:
    kills, seed = 0, SEED
    while kills < 200:
        seed += 1
        observer = await observed(Desk(tmp_path / str(seed)), seed, 8)
        assert observer.repeated == [], f"seed {seed}"
        kills += observer.kills


@pytest.mark.torture
async def test_without_the_marker_finished_steps_are_repeated(tmp_path: Path) -> None:
    """The twin of the test above: what it checks can fail."""
    for seed in range(SEED, SEED + 60):
        observer = await observed(Desk(tmp_path / str(seed)), seed, 8, "--no-markers")
        if observer.repeated:
            return
    pytest.fail("no finished step was repeated in 480 kills")
