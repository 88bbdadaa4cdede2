"""The durable engine (DBOS), behind the interface that the rest of the program uses.

A process that opens it with a harness can run runs, one lease each. A process that opens it without
one can start, answer, control and look.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec.structs import replace

from tillerman.core.errors import TillermanError, UsageError
from tillerman.paths import Paths
from tillerman.pipelines import engine_database
from tillerman.pipelines.run_lease import FileLeases, Leases, PostgresLeases
from tillerman.pipelines.run_state import ENDED, Answer, Run, RunSpec
from tillerman.pipelines.run_store import RunStore
from tillerman.pipelines.worker import Worker, git_of, output_file, remove_output

if TYPE_CHECKING:
    from dbos import DBOSClient

    from tillerman.harness.harness import Harness
    from tillerman.pipelines.workflows import Workflows

_POLL = 0.05  # seconds between looks for messages and queued work
_WATCH = 0.1  # seconds between looks at the state of a run
_UNFINISHED = ["PENDING", "ENQUEUED"]


class RunNotFound(UsageError):
    def __init__(self, run: str) -> None:
        super().__init__(f"no run matches {run!r}", hint="`tillerman pipeline list` lists all runs")


class RunBusy(TillermanError):
    """Another process runs it."""

    def __init__(self, run: str) -> None:
        super().__init__(
            f"another process runs {run}", hint=f"`tillerman pipeline logs -f {run}` follows it"
        )


class Engine:
    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self._url = engine_database.database_url()
        folder = engine_database.folder(paths)
        self._file = folder / "engine.db"
        if self._url:
            self.store = RunStore(engine_database.postgres_engine(self._url))
            self._leases: Leases = PostgresLeases(self._url)
        else:
            self.store = RunStore(engine_database.sqlite_engine(folder / "runs.db", "FULL"))
            self._leases = FileLeases(folder)
        self._worker: Worker | None = None
        self._flows: Workflows | None = None
        self._client_made: DBOSClient | None = None
        self._adopted: dict[str, asyncio.Task[None]] = {}  # runs that this process runs
        self._executor = f"{os.getpid()}-{secrets.token_hex(4)}"  # never the same twice

    @property
    def _queue(self) -> str:
        return f"tillerman-{self._executor}"

    # -- open and close --------------------------------------------------------------------------

    async def open(self, harness: Harness | None = None, *, markers: bool = True) -> None:
        """Opens it to run runs with this harness; without one, to control them."""
        _silence()
        await asyncio.to_thread(self._create_tables)
        if harness is None:
            return
        worker = Worker(harness, self.store, self._leases, markers=markers)
        starting = self._leases.starting()
        await asyncio.to_thread(starting.__enter__)
        try:
            self._flows = self._launch(worker)
        finally:
            starting.__exit__(None, None, None)
        self._worker = worker
        from dbos import DBOS

        await DBOS.register_queue_async(self._queue, polling_interval_sec=_POLL)

    def _create_tables(self) -> None:
        with self._leases.starting():
            self.store.create_tables()

    def _launch(self, worker: Worker) -> Workflows:
        """Launches the engine on this thread, so that workflows run in its event loop."""
        from dbos import DBOS, DBOSConfig

        from tillerman.pipelines.serializer import JsonSerializer
        from tillerman.pipelines.workflows import VERSION, Workflows

        for name in [name for name in os.environ if name.startswith("DBOS")]:
            del os.environ[name]
        config: DBOSConfig = {
            "name": "tillerman",
            "executor_id": self._executor,
            "application_version": VERSION,
            "serializer": JsonSerializer(),
            "notification_listener_polling_interval_sec": _POLL,
            "log_level": "ERROR",
        }
        if self._url:
            config["system_database_url"] = self._url
        else:
            config["system_database_engine"] = engine_database.sqlite_engine(self._file, "NORMAL")
        DBOS(config=config)
        flows = Workflows(worker)
        DBOS.listen_queues([self._queue])
        DBOS.launch()
        return flows

    async def close(self) -> None:
        """Ends what runs here; another process can go on with it."""
        if self._worker and self._flows:
            from dbos import DBOS

            for run in list(self._adopted):
                self._adopted.pop(run).cancel()
            await self._worker.stop()
            with suppress(Exception):
                await DBOS.delete_queue_async(self._queue)
            DBOS.destroy(destroy_registry=True)
            # the engine's own is shut down, and `asyncio.to_thread` would fail from now on
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
            tasks = list(self._flows.tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._worker.close()
        if self._client_made is not None:
            await asyncio.to_thread(self._client_made.destroy)
        self._leases.close()
        self.store.close()

    # -- runs ------------------------------------------------------------------------------------

    async def start(self, run: str, spec: RunSpec) -> None:
        """Starts a run here; one with this id goes on."""
        if not await self._take(run):
            raise RunBusy(run)
        await self._blocking(self.store.add_run, run, spec)
        await self._seed(run, spec)
        await self.adopt(run)

    async def adopt(self, run: str) -> bool:
        """Runs a run that no process runs, from where it was; False if another process has it."""
        assert self._worker and self._flows
        if run in self._adopted:
            return True
        if not await self._take(run):
            return False
        found = await self._found(run)
        if found.status in ENDED:
            self._leases.release(run)
            return True
        await self._worker.sweep(run)
        await self._blocking(self.store.set_queue, run, self._queue)
        if found.status == "paused":
            await self._blocking(self.store.set_run, run, "running")
        await self._resume(run, [*_UNFINISHED, "CANCELLED"])
        from tillerman.pipelines.flow_specs import GraphSpec, Scope

        spec = await self._worker.spec(run)
        scope = Scope(spec.inputs, values={"run.id": run})
        root = GraphSpec(
            run=run, path="", steps=spec.pipeline.steps, scope=scope, start=spec.base,
            seeds=spec.seeds,
        )  # fmt: skip
        await self._flows.start(root)
        self._adopted[run] = asyncio.create_task(self._deliver(run))
        return True

    async def wait(self, run: str) -> Run:
        """Waits until a run that was started here has ended, or is paused and at rest."""
        assert self._worker
        while True:
            found = await self._found(run)
            busy = any(id.startswith(f"{run}/") for id in self._worker.leaves)
            if found.status in ENDED and not busy:
                if found.status == "killed":
                    await self._clean(run)
                self._release(run)
                return found
            if found.status == "paused" and not busy:
                self._release(run)
                return found
            await self._check(run)
            await asyncio.sleep(_WATCH)

    def _release(self, run: str) -> None:
        if delivering := self._adopted.pop(run, None):
            delivering.cancel()
        self._leases.release(run)

    async def answer(self, run: str, path: str, answer: Answer) -> bool:
        """Answers a gate; False if it was answered before. The first answer counts."""
        gate = await self._blocking(self.store.gate, run, path)
        if gate is None:
            raise UsageError(
                f"{run} has no gate {path!r}", hint=f"`tillerman pipeline show {run}` lists them"
            )
        _check_answer(run, path, gate.choices, answer)
        if answer.commit:
            git = await self._git(run)
            if git is None:
                raise UsageError(f"{run} has no repository", hint="omit the commit")
            commit = await self._blocking(git.resolve, answer.commit)
            answer = replace(answer, commit=commit)
        return bool(await self._blocking(self.store.answer_gate, run, path, answer))

    async def control(self, run: str, to: Literal["paused", "running", "killed"]) -> None:
        """Pauses, continues or kills a run, whichever process runs it."""
        found = await self._found(run)
        if found.status in ENDED:
            raise UsageError(
                f"{run} is {found.status}", hint=f"`tillerman pipeline retry {run}` runs it again"
            )
        await self._blocking(self.store.set_run, run, to)
        client = await self._client()
        if to == "killed":
            with suppress(Exception):
                await client.cancel_workflow_async(run, cancel_children=True)
            await self._blocking(self.store.stop_steps, run, "cancelled")
            if self._worker is None and await self._take(run):
                await self._clean(run)
                self._leases.release(run)
        elif to == "paused":
            from tillerman.pipelines.workflows import GROUPS

            unfinished = await self._unfinished(run, _UNFINISHED)
            ids = [id for id, name in unfinished if name in GROUPS]
            await client.cancel_workflows_async(ids)
        else:  # what still runs may not be started a second time
            await self._resume(run, ["CANCELLED"])

    def look(self, run: str) -> Run:
        """Returns the state of a run, by its id or a prefix of it; `last` is the newest."""
        found = self.store.runs(limit=1) if run == "last" else self.store.runs(prefix=run, limit=2)
        exact = [one for one in found if one.id == run]
        if exact or len(found) == 1:
            one = (exact or found)[0]
            alive = one.status not in ENDED and self._leases.is_held(one.id)
            return replace(one, alive=alive)
        if found:
            raise UsageError(f"several runs begin with {run!r}", hint="give more of its id")
        raise RunNotFound(run)

    async def forget(self, runs: Sequence[str]) -> None:
        """Removes runs that have ended: what is stored of them, and their branches."""
        for run in dict.fromkeys(runs):
            found = await self._found(run)
            if found.status not in ENDED:
                raise UsageError(f"{run} has not ended", hint=f"`tillerman pipeline kill {run}`")
            git = await self._git(run)
            if git is not None:
                await self._blocking(git.delete_branches)
            client = await self._client()
            with suppress(Exception):
                await client.delete_workflow_async(run, delete_children=True)
            await self._blocking(remove_output, self._paths.state, run)
            await self._blocking(self.store.forget, run)
            self._leases.forget(run)

    # --------------------------------------------------------------------------------------------

    async def _blocking(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        if self._worker:
            return await self._worker.blocking(function, *args, **kwargs)
        return await asyncio.to_thread(function, *args, **kwargs)

    async def _take(self, run: str) -> bool:
        return bool(await self._blocking(self._leases.take, run))

    async def _found(self, run: str) -> Run:
        found: Run | None = await self._blocking(self.store.run, run)
        if found is None:
            raise RunNotFound(run)
        return found

    async def _client(self) -> DBOSClient:
        if self._client_made is None:
            from dbos import DBOSClient

            from tillerman.pipelines.serializer import JsonSerializer

            place: dict[str, Any] = {"system_database_url": self._url}
            if not self._url:
                engine = engine_database.sqlite_engine(self._file, "NORMAL")
                place = {"system_database_engine": engine}
            self._client_made = DBOSClient(
                serializer=JsonSerializer(), application_name="tillerman", lazy=True, **place
            )
        return self._client_made

    async def _unfinished(self, run: str, status: list[str]) -> list[tuple[str, str]]:
        """Ids and names of the workflows of a run that can go on."""
        client = await self._client()
        found = await client.list_workflows_async(
            workflow_id_prefix=[run, f"{run}/"],
            status=status,
            load_input=False,
            load_output=False,
        )
        mine = [one for one in found if one.workflow_id == run
                or one.workflow_id.startswith(f"{run}/")]  # fmt: skip
        return [(one.workflow_id, one.name) for one in mine]

    async def _resume(self, run: str, status: list[str]) -> None:
        """Queues workflows of a run for the process that has its lease."""
        queue = await self._blocking(self.store.queue, run)
        ids = [id for id, _ in await self._unfinished(run, status)]
        if ids and queue:
            client = await self._client()
            await client.resume_workflows_async(ids, queue_name=queue)

    async def _deliver(self, run: str) -> None:
        """Sends each stored answer to its gate, also those stored while no process ran the run.

        Who answers only stores the answer, so that it needs no engine and cannot die in between.
        """
        from tillerman.pipelines.workflows import ANSWER

        client = await self._client()
        sent: set[str] = set()
        while True:
            for gate in await self._blocking(self.store.gates, run):
                if gate.answer is None or gate.path in sent:
                    continue
                id = f"{run}/{gate.path}"
                with suppress(Exception):  # one that was not sent is sent at the next look
                    await client.send_async(
                        id, msgspec.to_builtins(gate.answer), topic=ANSWER, idempotency_key=id
                    )
                    sent.add(gate.path)
            await asyncio.sleep(_WATCH)

    async def _seed(self, run: str, spec: RunSpec) -> None:
        from tillerman.pipelines.run_state import kind_of

        git = await self._git(run)
        for step in spec.pipeline.steps:
            if result := spec.seeds.get(step.id):
                kind = kind_of(step)
                await self._blocking(self.store.seed_step, run, step.id, kind, result)
                if git is not None and result.commit:
                    await self._blocking(git.publish, step.id, result.commit)

    async def _check(self, run: str) -> None:
        """A run whose workflow ended by an error of the engine has failed."""
        client = await self._client()
        found = await client.list_workflows_async(
            workflow_ids=[run], load_input=False, load_output=True
        )
        if found and found[0].status in ("ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"):
            error = f"the engine ended it: {found[0].error}"
            await self._blocking(self.store.set_run, run, "failed", error=error)
            await self._clean(run)

    async def _clean(self, run: str) -> None:
        """Removes the worktrees of a run that was killed."""
        await self._blocking(self.store.stop_steps, run, "cancelled")
        git = await self._git(run)
        if git is not None:
            slots = await self._blocking(self.store.slots, run)
            await self._blocking(git.remove_worktrees, slots)
            await self._blocking(self.store.drop_slots, run)

    async def _git(self, run: str) -> Any:
        spec = await self._blocking(self.store.spec, run)
        return git_of(run, spec, self._paths.worktrees)

    async def diff(self, run: str, path: str) -> bytes:
        """Returns what a step changed, or what is under review at a gate."""
        git = await self._git(run)
        gate = await self._blocking(self.store.gate, run, path)
        result = gate or await self._blocking(self.store.result, run, path)
        if git is None or result is None or not result.commit or not result.base:
            return b""
        found: bytes = await self._blocking(git.diff, result.base, result.commit)
        return found

    def output(self, run: str, path: str) -> str:
        """Returns the stored output of a command."""
        try:
            file = output_file(self._paths.state, run, path)
            return file.read_text("utf-8", "replace")
        except FileNotFoundError:
            return ""


def _silence() -> None:
    """Keeps the engine's own log off the terminal: it prints a traceback for each cancel."""
    logger = logging.getLogger("dbos")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def _check_answer(run: str, path: str, choices: Sequence[str], answer: Answer) -> None:
    if answer.decision == "approve" and path.endswith("MERGE") and not answer.commit:
        raise UsageError(
            "this gate needs the commit that merges the parallel steps",
            hint=f"`tillerman pipeline show {run}` prints the commands; then use --commit",
        )
    if answer.choice and answer.choice not in choices:
        raise UsageError(
            f"{answer.choice!r} is not one of the attempts", hint=f"choose {', '.join(choices)}"
        )
