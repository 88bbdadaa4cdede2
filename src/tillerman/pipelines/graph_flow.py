"""Steps that form a graph: each starts when those that it needs are done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from tillerman.pipelines.flow_specs import (
    BestSpec,
    FlowSpec,
    GateSpec,
    GraphSpec,
    LoopSpec,
    MapSpec,
    Scope,
    WorkSpec,
)
from tillerman.pipelines.merge_step import MERGE, merge_gate, merge_step
from tillerman.pipelines.run_end import end_run
from tillerman.pipelines.run_state import StepResult, StepStatus, kind_of
from tillerman.pipelines.steps import (
    AgentJudge,
    AgentStep,
    BestOfStep,
    CommandJudge,
    CommandStep,
    LoopStep,
    MapStep,
    ParallelStep,
    PersonJudge,
    Pipeline,
    PipelineStep,
    ReviewStep,
    Step,
)
from tillerman.pipelines.template_values import values_for
from tillerman.pipelines.templates import TemplateError, Values, render, render_command
from tillerman.pipelines.workflows import Mailbox, Workflows


async def graph(flows: Workflows, spec: GraphSpec) -> StepResult:
    result = await GraphFlow(flows, spec).run()
    if not spec.path:
        await end_run(flows, spec.run, result)
    return result


class GraphFlow:
    def __init__(self, flows: Workflows, spec: GraphSpec) -> None:
        self._flows = flows
        self._spec = spec
        self._box = Mailbox(flows, spec)
        self._results: dict[str, StepResult] = dict(spec.seeds)
        self._started: set[str] = set()
        self._merged: dict[str, str] = {}  # commits that people made of conflicting ones
        self._cost = 0.0

    async def run(self) -> StepResult:
        await self._start_ready()
        while len(self._box):
            path, result = await self._box.receive()
            name = path.rpartition("/")[2]
            if name == MERGE:
                step = path.split("/")[-2]
                self._started.discard(step)
                if result.ok:
                    self._merged[step] = result.commit
                else:
                    self._results[step] = result
            else:
                self._results[name] = result
                self._cost += result.cost or 0.0
            await self._start_ready()
        return await self._end()

    async def _start_ready(self) -> None:
        """Starts what can start; a step whose need failed is skipped, and so are those after it."""
        for step in self._spec.steps:
            if step.id in self._results or step.id in self._started:
                continue
            needs = [self._results.get(id) for id in step.needs]
            done = [result for result in needs if result is not None]
            if failed := next((one for one in done if not one.ok), None):
                self._results[step.id] = StepResult(ok=False, error="skipped")
                await self._skip(step, failed)
            elif len(done) == len(needs):
                await self._start(step)

    async def _start(self, step: Step) -> None:
        self._started.add(step.id)
        path = self._spec.inside(step.id)
        merged = self._merged.get(step.id, "")
        commits = [merged] if merged else self._commits_before(step)
        start = commits[0] if commits else self._spec.start
        if len(commits) > 1:
            done = await merge_step(self._flows, self._spec.run, commits)
            if done.conflicts:
                await self._box.start(merge_gate(self._spec, path, done))
                return
            start = done.commit
        try:
            child = await self._child(step, path, start)
        except (KeyError, TemplateError) as error:
            self._results[step.id] = StepResult(ok=False, error=f"its template fails: {error}")
            await self._skip(step, self._results[step.id])
            return
        await self._box.start(child)

    def _commits_before(self, step: Step) -> list[str]:
        found = [self._results[id].commit for id in step.needs]
        return list(dict.fromkeys(commit for commit in found if commit))

    async def _child(self, step: Step, path: str, start: str) -> FlowSpec:
        run, parent = self._spec.run, self._spec.id
        scope = self._spec.scope.with_results(self._results)
        after = tuple(self._spec.inside(id) for id in step.needs) or self._spec.after
        place: dict[str, Any] = {"run": run, "path": path, "parent": parent}
        place |= {"start": start, "after": after}
        match step:
            case ParallelStep(steps=steps):
                return GraphSpec(steps=steps, scope=scope.for_steps(steps), **place)
            case LoopStep():
                return LoopSpec(step=step, scope=scope.for_steps([step]), **place)
            case MapStep():
                return MapSpec(step=step, scope=scope.for_steps([step]), **place)
            case _:
                pass
        values = await values_for(self._flows, run, scope, [step])
        match step:
            case AgentStep():
                return WorkSpec(step=replace(step, prompt=render(step.prompt, values)), **place)
            case CommandStep():
                command = render_command(step.command, values)
                return WorkSpec(step=replace(step, command=command), **place)
            case ReviewStep():
                texts = [self._results[id].text for id in step.needs]
                return GateSpec(
                    message=render(step.message, values),
                    account="\n\n".join(filter(None, texts)),
                    base=self._base_before(step),
                    **place,
                )
            case BestOfStep():
                return BestSpec(step=_filled(step, values), **place)
            case PipelineStep():
                spec = await self._flows.worker.spec(run)
                called = spec.pipeline.called[step.pipeline]
                given = {name: render(text, values) for name, text in step.inputs.items()}
                inner = Scope(_inputs(called, given), values={"run.id": run})
                return GraphSpec(steps=called.steps, scope=inner, **place)

    def _base_before(self, step: Step) -> str:
        """Returns the commit from which the reviewed changes begin: the last gate, or the start."""
        by_id = {one.id: one for one in self._spec.steps}
        for id in self._ancestors(step, by_id):
            if isinstance(by_id[id], ReviewStep) and self._results[id].commit:
                return self._results[id].commit
        return self._spec.start

    def _ancestors(self, step: Step, by_id: dict[str, Step]) -> Sequence[str]:
        found: list[str] = []
        queue = list(step.needs)
        while queue:
            id = queue.pop(0)
            if id not in found:
                found.append(id)
                queue += by_id[id].needs
        return found

    async def _skip(self, step: Step, why: StepResult) -> None:
        """Shows it as skipped. A replay does so again, which changes nothing."""
        worker = self._flows.worker
        path, error = self._spec.inside(step.id), why.error
        own = self._results[step.id]
        status: StepStatus = "skipped" if own.error == "skipped" else "failed"
        error = "" if status == "skipped" else error
        await worker.blocking(
            worker.store.skip_step, self._spec.run, path, kind_of(step), status, error
        )

    async def _end(self) -> StepResult:
        needed = {id for step in self._spec.steps for id in step.needs}
        sinks = [step.id for step in self._spec.steps if step.id not in needed]
        results = {step.id: self._results[step.id] for step in self._spec.steps}
        flat = {id: one for result in results.values() for id, one in result.steps.items()}
        whole = replace(_worst(results), steps=flat | results)
        commits = [results[id].commit for id in sinks if results[id].ok and results[id].commit]
        commits = list(dict.fromkeys(commits))
        commit = commits[0] if commits else self._spec.start
        if whole.ok and len(commits) > 1:
            done = await merge_step(self._flows, self._spec.run, commits)
            commit = done.commit
            if done.conflicts:
                path = self._spec.path
                answer = await self._box.run(merge_gate(self._spec, path, done))
                if not answer.ok:
                    return replace(whole, ok=False, error=answer.error, rejected=answer.rejected)
                commit = answer.commit
        text = "\n\n".join(results[id].text for id in sinks if results[id].text)
        files = tuple(dict.fromkeys(file for one in results.values() for file in one.files))
        return replace(whole, text=text, commit=commit, files=files, cost=self._cost or None)


def _worst(results: dict[str, StepResult]) -> StepResult:
    """Returns the outcome of a graph: completed, or as its first failed step."""
    for id, result in results.items():
        if not result.ok and result.error != "skipped":
            error = f"{id}: {result.error}"
            return StepResult(ok=False, error=error, rejected=result.rejected, limit=result.limit)
    return StepResult(ok=True)


def _filled(step: BestOfStep, values: Values) -> BestOfStep:
    attempts: list[AgentStep | CommandStep] = []
    for one in step.attempts:
        if isinstance(one, AgentStep):
            attempts.append(replace(one, prompt=render(one.prompt, values)))
        else:
            attempts.append(replace(one, command=render_command(one.command, values)))
    judge = step.judge
    match judge:
        case CommandJudge(command):
            judge = CommandJudge(render_command(command, values))
        case AgentJudge():
            judge = replace(judge, prompt=render(judge.prompt, values))
        case PersonJudge():
            judge = replace(judge, message=render(judge.message, values))
    return replace(step, attempts=tuple(attempts), judge=judge)


def _inputs(pipeline: Pipeline, given: dict[str, str]) -> dict[str, str | tuple[str, ...]]:
    values: dict[str, str | tuple[str, ...]] = {}
    for name, one in pipeline.inputs.items():
        if name in given:
            text = given[name]
            values[name] = tuple(filter(None, text.split("\n"))) if one.type == "list" else text
        elif isinstance(one.default, tuple):
            values[name] = one.default
        else:
            values[name] = "" if one.default is None else str(one.default)
    return values
