"""The workflows that the engine records: each is one thread of control, and waits in its mailbox.

A workflow does one thing at a time. What goes on beside it is a child workflow, which ends with a
message to its parent; the engine records the order of these messages, so a replay is exact.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import msgspec
from dbos import DBOS, SetWorkflowID

from tillerman.pipelines.flow_specs import (
    BestSpec,
    FlowSpec,
    GateSpec,
    GraphSpec,
    LoopSpec,
    MapSpec,
    WorkSpec,
)
from tillerman.pipelines.leaf_run import LeafRun, LeafSpec
from tillerman.pipelines.run_state import StepResult
from tillerman.pipelines.serializer import plain
from tillerman.pipelines.worker import Worker

T = TypeVar("T")
Recorded = dict[str, Any]  # what the engine stores: JSON
VERSION = "pipe-1"  # raised when the order of recorded calls changes, not with each release
BOX, ANSWER = "box", "answer"  # topics of messages
FIRST_POLL, LONGEST_POLL = 20.0, 3600.0  # seconds until a waiting parent asks for its children
LEAF, GATE = "leaf/1", "gate/1"
_NAMES: dict[type, str] = {
    GraphSpec: "graph/1",
    LoopSpec: "loop/1",
    MapSpec: "map/1",
    BestSpec: "best/1",
    GateSpec: GATE,
    WorkSpec: LEAF,
}
GROUPS = {"graph/1": "group", "loop/1": "loop", "map/1": "map", "best/1": "best_of"}
_DEAD = ["ERROR", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"]

Workflow = Callable[[Recorded], Coroutine[Any, Any, None]]


class Workflows:
    """The registered workflows of this process."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.tasks: set[asyncio.Task[Any]] = set()
        self._by_name: dict[str, Workflow] = {}
        from tillerman.pipelines.best_flow import best
        from tillerman.pipelines.gate_flow import gate
        from tillerman.pipelines.graph_flow import graph
        from tillerman.pipelines.loop_flow import loop
        from tillerman.pipelines.map_flow import map_items

        self._register(GraphSpec, graph)
        self._register(LoopSpec, loop)
        self._register(MapSpec, map_items)
        self._register(BestSpec, best)
        self._register(GateSpec, gate)
        self._register(WorkSpec, _work)

    def _register(
        self, kind: type[Any], body: Callable[[Workflows, Any], Awaitable[StepResult]]
    ) -> None:
        name = _NAMES[kind]
        store, blocking = self.worker.store, self.worker.blocking

        async def workflow(recorded: Recorded) -> None:
            task = asyncio.current_task()
            assert task
            self.tasks.add(task)
            try:
                spec: FlowSpec = msgspec.convert(recorded, kind)
                group = GROUPS.get(name) if spec.path else None
                if group:
                    await blocking(store.begin_group, spec.run, spec.path, group)
                try:
                    result = await body(self, spec)
                except Exception as error:  # a parent must not wait for ever
                    text = plain(f"{type(error).__name__}: {error}")
                    result = StepResult(ok=False, error=text)
                    if not spec.parent and not self.worker.stopping:
                        await blocking(store.set_run, spec.run, "failed", error=text)
                if group:
                    await blocking(store.end_group, spec.run, spec.path, result)
                if spec.parent:
                    message = {"path": spec.path, "result": msgspec.to_builtins(result)}
                    await DBOS.send_async(spec.parent, message, topic=BOX)
            finally:
                self.tasks.discard(task)

        registered = DBOS.workflow(name=name, max_recovery_attempts=None)(workflow)
        self._by_name[name] = registered

    async def start(self, spec: FlowSpec) -> None:
        """Starts a workflow; one that exists already is not started again."""
        with SetWorkflowID(spec.id):
            await DBOS.start_workflow_async(
                self._by_name[_NAMES[type(spec)]], msgspec.to_builtins(spec)
            )

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Calls a function whose plain result is recorded: a replay does not call it again."""

        async def call() -> Any:
            return msgspec.to_builtins(await function())

        value: T = await DBOS.run_step_async({"name": name}, call)
        return value


class Mailbox:
    """The children of one workflow, and their messages."""

    def __init__(self, flows: Workflows, spec: FlowSpec) -> None:
        self._flows = flows
        self._spec = spec
        self._open: set[str] = set()
        self._poll = FIRST_POLL

    def __len__(self) -> int:
        return len(self._open)

    async def start(self, child: FlowSpec) -> None:
        self._open.add(child.path)
        await self._flows.start(child)

    async def receive(self) -> tuple[str, StepResult]:
        """Waits for the next child that ends; returns its path and result."""
        while True:
            message = await DBOS.recv_async(BOX, timeout_seconds=self._poll)
            if message is None:
                self._poll = min(self._poll * 2, LONGEST_POLL)
                for path in await self._flows.step("dead", self._dead):
                    self._open.discard(path)
                    return path, StepResult(ok=False, error="its workflow ended with an error")
            elif message["path"] in self._open:
                self._open.discard(message["path"])
                return message["path"], msgspec.convert(message["result"], StepResult)

    async def run(self, child: FlowSpec) -> StepResult:
        """Runs one child to its end, while no other is running."""
        assert not self._open
        await self.start(child)
        return (await self.receive())[1]

    async def _dead(self) -> list[str]:
        run = self._spec.run
        ids = [f"{run}/{path}" for path in sorted(self._open)]
        found = await DBOS.list_workflows_async(
            workflow_ids=ids, status=_DEAD, load_input=False, load_output=False
        )
        return [one.workflow_id.removeprefix(f"{run}/") for one in found]


async def _work(flows: Workflows, spec: WorkSpec) -> StepResult:
    leaf = msgspec.convert(
        {
            "run": spec.run,
            "path": spec.path,
            "step": msgspec.to_builtins(spec.step),
            "start": spec.start,
            "after": spec.after,
            "commit": spec.commit,
        },
        LeafSpec,
    )

    async def work() -> Recorded:
        worker = flows.worker
        task = asyncio.ensure_future(LeafRun(worker, leaf).run())
        worker.leaves[spec.id] = task
        try:
            result: Recorded = msgspec.to_builtins(await task)
            return result
        except asyncio.CancelledError:
            if worker.stopping:  # nothing may be recorded: another process goes on with it
                await asyncio.get_running_loop().create_future()
            raise
        finally:
            worker.leaves.pop(spec.id, None)

    done = await DBOS.run_step_async({"name": "work", "preemptible": True}, work)
    return msgspec.convert(done, StepResult)
