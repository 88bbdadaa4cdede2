"""A project, a state folder and processes that run runs in it, for tests of the engine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from tillerman.paths import Paths, find_paths
from tillerman.pipelines.engine import Engine
from tillerman.pipelines.run_git import find_place
from tillerman.pipelines.run_state import ENDED, Answer, Run, RunSpec, StepRow
from tillerman.pipelines.run_store import RunStore
from tillerman.pipelines.steps import AgentStep, CommandStep, GitEnd, Pipeline, Step

CHECKOUT = Path(__file__).parents[2]
WITHIN = 60.0  # seconds


class Desk:
    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "project"
        self.ledger = folder / "ledger"
        self.home.mkdir(parents=True)
        self.project.mkdir()
        self.ledger.touch()
        programs = folder / "bin"  # a command of its own, since agents may not write elsewhere
        programs.mkdir()
        (programs / "note").write_text(f'#!/bin/sh\necho "$1" >> {self.ledger}\n')
        (programs / "note").chmod(0o755)
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("TILLERMAN")},
            "PATH": f"{programs}:{os.environ['PATH']}",
            "TILLERMAN_HOME": str(self.home),
            "TILLERMAN_MOCK_STATE": str(folder / "mock"),
        }
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Tester")
        self.git("config", "user.email", "tester@example.com")
        (self.project / "README").write_text("A project.\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Begin")

    @property
    def paths(self) -> Paths:
        return find_paths(self.environment)

    def git(self, *words: str) -> str:
        argv = ["git", "-C", str(self.project), *words]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()

    # -- pipelines -------------------------------------------------------------------------------

    def spec(self, *steps: Step, **options: Any) -> RunSpec:
        place = find_place(self.project)
        assert place
        inputs = options.pop("inputs", {})
        options.setdefault("git", GitEnd())
        pipeline = Pipeline(name="test", steps=steps, **options)
        return RunSpec(
            pipeline=pipeline,
            inputs=inputs,
            folder=str(self.project),
            repository=place.top,
            base=place.commit,
            branch=place.branch,
        )

    def note(self, step: str) -> str:
        """A command that writes into the ledger that the step starts."""
        return f"note {step}"

    def command(self, id: str, command: str = "", **options: Any) -> CommandStep:
        """Notes its start, and changes a file of its name."""
        words = f"{self.note(id)}; {command or 'sleep 0.1'}; echo {id} >> {id}.txt; echo did {id}"
        return CommandStep(id=id, command=words, **options)

    def agent(self, id: str, *steps: dict[str, Any], **options: Any) -> AgentStep:
        """A mock agent that notes its start, and writes a file of its name."""
        script = [
            {"run": self.note(id)},
            *steps,
            {"write": f"{id}.txt", "text": f"{id}\n"},
            {"say": f"did {id}"},
        ]
        options.setdefault("approve", "auto")
        return AgentStep(id=id, agents=("mock",), prompt=json.dumps(script), **options)

    # -- processes -------------------------------------------------------------------------------

    def owner(self, run: str, spec: RunSpec | None = None, *more: str) -> subprocess.Popen[str]:
        words = [sys.executable, "-m", "tests.pipelines.run_owner", str(self.project), run]
        if spec:
            file = self.home.parent / f"{run}.json"
            file.write_bytes(msgspec.json.encode(spec))
            words.append(str(file))
        return subprocess.Popen(
            [*words, *more],
            cwd=CHECKOUT,
            env=self.environment,
            stdout=subprocess.PIPE,  # a few lines: nobody has to read them
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, run: str, spec: RunSpec | None = None, *more: str) -> str:
        """Runs it to its end in a process; returns the output."""
        owner = self.owner(run, spec, *more)
        try:
            return owner.communicate(timeout=WITHIN)[0]
        finally:
            owner.kill()

    @asynccontextmanager
    async def control(self) -> AsyncIterator[Engine]:
        """An engine that only controls, in this process."""
        before = {name: os.environ.get(name) for name in ("TILLERMAN_DATABASE_URL",)}
        if url := self.environment.get("TILLERMAN_DATABASE_URL"):
            os.environ["TILLERMAN_DATABASE_URL"] = url
        try:
            engine = Engine(self.paths)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
        await engine.open()
        try:
            yield engine
        finally:
            await engine.close()

    # -- what there is ---------------------------------------------------------------------------

    def started(self) -> list[str]:
        """Steps that started, in order."""
        return self.ledger.read_text().split()

    def left_over(self) -> list[str]:
        """Worktrees and processes that should not be there."""
        found = self.git("worktree", "list").splitlines()[1:]
        found += [str(path) for path in self.paths.worktrees.glob("*/*/*")]
        return found + self.processes()

    def processes(self) -> list[str]:
        """Processes that have this state folder in their variables or arguments."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                text = (folder / "environ").read_bytes() + (folder / "cmdline").read_bytes()
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if folder.name != str(os.getpid()) and str(self.home).encode() in text and words:
                found.append(f"process {folder.name}: {words}")
        return found

    async def nothing_left(self, within: float = 10.0) -> None:
        deadline = time.monotonic() + within
        while left := self.left_over():
            assert time.monotonic() < deadline, left
            await asyncio.sleep(0.05)


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def until_step(store: RunStore, run: str, path: str, status: str) -> StepRow:
    """Waits until a step has this status."""
    deadline = time.monotonic() + WITHIN
    while True:
        rows: Sequence[StepRow] = store.steps(run)
        for row in rows:
            if row.path == path and row.status == status:
                return row
        assert time.monotonic() < deadline, rows
        await asyncio.sleep(0.02)


async def until_ended(store: RunStore, run: str) -> Run:
    deadline = time.monotonic() + WITHIN
    while True:
        found = store.run(run)
        if found and found.status in ENDED:
            return found
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.02)


def kill(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


APPROVE = Answer("approve")
