"""Runs one agent or command: in a worktree, to a commit, with a marker that it is done.

The marker is the row of the step with its result. It is written when the commit exists, and before
the engine records anything, so that a process that dies in between does not repeat the step.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from tillerman.core.errors import TillermanError
from tillerman.pipelines.agent_run import AgentRun
from tillerman.pipelines.command_run import run_command
from tillerman.pipelines.run_git import RunGit
from tillerman.pipelines.run_state import StepResult, StepRow, StepStatus
from tillerman.pipelines.serializer import plain
from tillerman.pipelines.steps import AgentStep, CommandStep
from tillerman.pipelines.worker import Worker
from tillerman.sessions.session import Session
from tillerman.workspace.git.git import GitFailed

_SHOWN_EVERY = 0.25  # seconds between two stored last lines


class LeafSpec(Struct, frozen=True, omit_defaults=True):
    run: str
    path: str
    step: AgentStep | CommandStep  # its templates are filled in
    start: str = ""  # commit; empty: no repository
    after: tuple[str, ...] = ()  # paths of the steps before it
    commit: bool = True  # False: a check, whose changes are dropped


class LeafRun:
    def __init__(self, worker: Worker, spec: LeafSpec) -> None:
        self._worker = worker
        self._store = worker.store
        self._spec = spec
        self._run, self._path = spec.run, spec.path
        self._line = ""
        self._shown_at = 0.0
        self._showing: asyncio.Task[None] | None = None

    async def run(self) -> StepResult:
        blocking = self._worker.blocking
        git = await self._worker.git(self._run)
        if self._worker.markers:
            done = await blocking(self._store.result, self._run, self._path)
            if done is not None:
                await self._finish(git, done)
                return done
        found = await blocking(self._store.run, self._run)
        if found is not None and found.status == "killed":
            raise asyncio.CancelledError("the run was killed")
        kind = "agent" if isinstance(self._spec.step, AgentStep) else "run"
        row = await blocking(self._store.begin_step, self._run, self._path, kind)
        try:
            result = await self._work(git, row)
        except asyncio.CancelledError:
            status = "interrupted" if self._worker.stopping else "cancelled"
            await asyncio.shield(
                blocking(self._store.change_step, self._run, self._path, status=status)
            )
            raise
        except (TillermanError, GitFailed, OSError) as error:
            hint = f" ({error.hint})" if isinstance(error, TillermanError) and error.hint else ""
            result = StepResult(ok=False, error=plain(f"{error}{hint}"))
        finally:
            if self._showing:
                self._showing.cancel()
        self._fence()
        ended: StepStatus = "completed" if result.ok else "failed"
        line = plain(self._line)
        await blocking(self._store.end_step, self._run, self._path, ended, result, line)
        await self._finish(git, result)
        return result

    async def _work(self, git: RunGit | None, row: StepRow) -> StepResult:
        spec = await self._worker.spec(self._run)
        shared = git is None or spec.pipeline.workspace == "shared"
        folder, slot = Path(spec.folder), ""
        again = row.attempt > 1
        session = row.session if again and self._resumes() else ""
        if again:
            await self._log_interruption(session)
        if git is not None and not shared:
            slot, own = await self._worker.blocking(
                self._store.take_slot, self._run, self._path, self._spec.after
            )
            if session and not (own and git.worktree(slot).is_dir()):
                session = ""
            if not session:
                await self._worker.blocking(git.prepare, slot, self._spec.start, clean=again)
            folder = git.folder(slot)
        self._fence()
        if over := await self._over_cost():
            return over
        result = await self._step(folder, session, git, slot)
        if git is None or not self._spec.start:
            return result
        return await self._committed(git, result, slot)

    async def _step(self, folder: Path, session: str, git: RunGit | None, slot: str) -> StepResult:
        if isinstance(self._spec.step, CommandStep):
            return await self._command(self._spec.step, folder)
        spec = await self._worker.spec(self._run)
        agent = AgentRun(
            self._worker.harness,
            self._spec.step,
            folder=folder,
            project=Path(spec.folder),
            title=f"{spec.pipeline.name}: {self._path}",
            limit=await self._time_left(),
            most_cost=await self._cost_left(),
            on_line=self._show,
            on_session=self._opened,
        )
        if not session:
            return await agent.start()
        try:
            return await agent.resume(session)
        except TillermanError as error:
            await self._log(f"session {session} cannot be resumed: {error.message}; starts anew")
        if git is not None and slot:
            await self._worker.blocking(git.prepare, slot, self._spec.start, clean=True)
        return await agent.start()

    async def _command(self, step: CommandStep, folder: Path) -> StepResult:
        limit = await self._time_left()
        ended = await run_command(
            await self._worker.warden(self._run),
            step.command,
            cwd=folder,
            env=self._worker.environment(self._run, self._path),
            stored=self._worker.output_file(self._run, self._path),
            limit=limit,
            on_line=self._show,
        )
        ok = ended.code is not None and ended.code in step.exits
        error = ""
        if ended.timed_out:
            error = f"the command took longer than {limit:g} s"
        elif not ok:
            how = f"signal {ended.signal}" if ended.signal else f"exit code {ended.code}"
            error = f"the command ended with {how}"
        return StepResult(
            ok=ok, text=plain(ended.output), error=error, code=ended.code, limit=ended.timed_out
        )

    async def _committed(self, git: RunGit, result: StepResult, slot: str) -> StepResult:
        """Commits what the step changed; the branch follows when the result is stored."""
        start, subject = self._spec.start, f"{self._run}: {self._path}"
        if not self._spec.commit:
            if slot:
                await self._worker.blocking(git.prepare, slot, start, clean=True)
            return replace(result, commit=start, base=start)
        blocking = self._worker.blocking
        if slot:
            commit = await blocking(git.commit, git.worktree(slot), start, subject, self._path)
        else:
            commit = await blocking(git.snapshot, start, subject, self._path)
        files = await self._worker.blocking(git.changed_files, start, commit)
        names = tuple(plain(name) for name in files)
        return replace(result, commit=commit, base=start, files=names)

    async def _finish(self, git: RunGit | None, result: StepResult) -> None:
        """What follows from the marker. Doing it again changes nothing."""
        if git is not None and result.commit and self._spec.commit:
            slot = await self._worker.blocking(self._store.slot_of, self._run, self._path)
            await self._worker.blocking(git.publish, self._path, result.commit, slot)
        await self._worker.blocking(self._store.free_slot, self._run, self._path)

    async def _over_cost(self) -> StepResult | None:
        """Refuses to start what comes after the cost limit of the run; a check is free."""
        left = await self._cost_left()
        if left is None or left > 0 or not self._spec.commit:
            return None
        most = (await self._worker.spec(self._run)).pipeline.limits.cost
        return StepResult(ok=False, error=f"the run exceeded its limit of {most:g} USD", limit=True)

    async def _cost_left(self) -> float | None:
        """Returns the US dollars that the run may still cost, wherever its steps are."""
        spec = await self._worker.spec(self._run)
        if (most := spec.pipeline.limits.cost) is None:
            return None
        run = await self._worker.blocking(self._store.run, self._run)
        return most - ((run.cost if run else None) or 0.0)

    async def _time_left(self) -> float | None:
        """Returns the seconds that the step may take: its own limit, or the rest of the run's."""
        spec = await self._worker.spec(self._run)
        limits = [self._spec.step.limits.time]
        if (most := spec.pipeline.limits.time) is not None:
            run = await self._worker.blocking(self._store.run, self._run)
            begun = run.started_at if run else time.time()
            limits.append(max(0.1, begun + most - time.time()))
        given = [limit for limit in limits if limit is not None]
        return min(given) if given else None

    def _resumes(self) -> bool:
        step = self._spec.step
        return isinstance(step, AgentStep) and step.interrupted == "resume"

    def _fence(self) -> None:
        """Stands before every effect: another process may run this run now."""
        if not self._worker.leases.valid(self._run):
            raise asyncio.CancelledError("the lease is lost")

    # -- what is shown ---------------------------------------------------------------------------

    async def _opened(self, session: Session) -> None:
        await self._worker.blocking(
            self._store.change_step,
            self._run,
            self._path,
            session=session.id,
            agent=session.agent,
        )

    async def _log_interruption(self, session: str) -> None:
        how = "runs again"
        if session:
            how = f"resumes session {session}"
        elif isinstance(self._spec.step, AgentStep):
            how = "starts again"
        if self._spec.start and not session:
            spec = await self._worker.spec(self._run)
            if spec.pipeline.workspace == "worktree":
                how += " in a clean worktree"
        await self._log(f"it was interrupted, and {how}")

    async def _log(self, text: str) -> None:
        await self._worker.blocking(self._store.log, self._run, self._path, plain(text))

    def _show(self, line: str) -> None:
        if not line or line == self._line:
            return
        self._line = line
        if self._showing is None or self._showing.done():
            self._showing = asyncio.create_task(self._store_line())

    async def _store_line(self) -> None:
        """Stores the newest line, at most four times a second."""
        wait = self._shown_at + _SHOWN_EVERY - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        self._shown_at = time.monotonic()
        await self._worker.blocking(
            self._store.change_step, self._run, self._path, last_line=plain(self._line)
        )
