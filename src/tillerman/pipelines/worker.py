"""What the steps of runs need from the process that runs them."""

from __future__ import annotations

import asyncio
import contextvars
import os
import secrets
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from tillerman.paths import make_private
from tillerman.pipelines.run_git import RunGit
from tillerman.pipelines.run_lease import Leases
from tillerman.pipelines.run_state import RunSpec
from tillerman.pipelines.run_store import RunStore
from tillerman.supervision.client.orphan_sweep import sweep_when_free
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.environment import child_environment

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

P = ParamSpec("P")
T = TypeVar("T")
_THREADS = 16


class Worker:
    def __init__(
        self, harness: Harness, store: RunStore, leases: Leases, *, markers: bool = True
    ) -> None:
        self.harness = harness
        self.store = store
        self.leases = leases
        self.markers = markers  # False only in the test that shows what they are for
        self.stopping = False
        self.leaves: dict[str, asyncio.Task[object]] = {}  # at work here, by workflow id
        self._id = secrets.token_hex(4)
        self._specs: dict[str, RunSpec] = {}
        self._gits: dict[str, RunGit | None] = {}
        self._wardens: dict[str, asyncio.Task[WardenClient]] = {}
        # the engine replaces the loop's default executor by one without bound
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="pipelines-")

    async def blocking(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls a function that blocks in a thread."""
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: context.run(function, *args, **kwargs)
        )

    async def spec(self, run: str) -> RunSpec:
        if run not in self._specs:
            self._specs[run] = await self.blocking(self.store.spec, run)
        return self._specs[run]

    async def git(self, run: str) -> RunGit | None:
        """Returns the git of a run; None if it was started outside of a repository."""
        if run not in self._gits:
            self._gits[run] = git_of(run, await self.spec(run), self.harness.paths.worktrees)
        return self._gits[run]

    async def warden(self, run: str) -> WardenClient:
        """Returns the parent process of a run's commands."""
        starting = self._wardens.get(run)
        if starting is None or (starting.done() and starting.result().lost):
            marker = f"pipeline-{run}-{self._id}"
            start = WardenClient.start(records=self.harness.paths.spawns, marker=marker)
            starting = self._wardens[run] = asyncio.create_task(start)
        return await asyncio.shield(starting)

    async def sweep(self, run: str) -> None:
        """Waits until no process of an earlier owner of the run is left."""
        for folder in self.harness.paths.spawns.glob(f"pipeline-{run}-*"):
            await sweep_when_free(folder)

    def environment(self, run: str, path: str) -> dict[str, str]:
        """The variables of a command."""
        passed = self.harness.config.env.passed
        found = child_environment(os.environ, (), passed).variables
        return found | {"TILLERMAN_RUN": run, "TILLERMAN_STEP": path}

    def output_file(self, run: str, path: str) -> Path:
        """The file of a command's output."""
        return output_file(self.harness.paths.state, run, path)

    async def stop(self) -> None:
        """Ends all agents and commands; nothing of it is recorded as an end."""
        self.stopping = True
        for task in list(self.leaves.values()):
            task.cancel()
        if self.leaves:
            await asyncio.wait(list(self.leaves.values()))

    async def close_run(self, run: str) -> None:
        """Ends the parent process of its commands."""
        if starting := self._wardens.pop(run, None):
            with suppress(Exception):
                await (await starting).close()

    async def close(self) -> None:
        for run in list(self._wardens):
            await self.close_run(run)
        self._threads.shutdown(wait=False, cancel_futures=True)


def git_of(run: str, spec: RunSpec, worktrees: Path) -> RunGit | None:
    if not spec.repository:
        return None
    return RunGit(run, Path(spec.repository), Path(spec.folder), worktrees)


def output_file(state: Path, run: str, path: str) -> Path:
    folder = _output_folder(state, run)
    make_private(folder)
    return folder / f"{path.replace('/', '.')}.log"


def remove_output(state: Path, run: str) -> None:
    """Removes what the commands of a run wrote."""
    shutil.rmtree(_output_folder(state, run), ignore_errors=True)


def _output_folder(state: Path, run: str) -> Path:
    return state / "pipelines" / "output" / run
