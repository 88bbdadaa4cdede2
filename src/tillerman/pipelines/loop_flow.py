"""Repeats steps until a command passes; its output goes to the next iteration."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from tillerman.pipelines.flow_specs import GraphSpec, LoopSpec, WorkSpec
from tillerman.pipelines.run_state import StepResult
from tillerman.pipelines.steps import CommandStep
from tillerman.pipelines.template_values import values_for
from tillerman.pipelines.templates import render_command
from tillerman.pipelines.workflows import Mailbox, Workflows

UNTIL = "UNTIL"  # name of the check, below the iteration


async def loop(flows: Workflows, spec: LoopSpec) -> StepResult:
    step, box = spec.step, Mailbox(flows, spec)
    start, after, output = spec.start, spec.after, ""
    cost = 0.0
    files: dict[str, None] = {}
    for number in range(1, step.most + 1):
        scope = spec.scope.with_values(**{"loop.output": output, "loop.iteration": str(number)})
        path = spec.inside(f"i{number}")
        place: dict[str, Any] = {"run": spec.run, "parent": spec.id}
        graph = GraphSpec(
            path=path, steps=step.steps, scope=scope, start=start, after=after, **place
        )
        done = await box.run(graph)
        cost += done.cost or 0.0
        files |= dict.fromkeys(done.files)
        whole = replace(done, base=spec.start, files=tuple(files), cost=cost or None)
        if not done.ok:
            return replace(whole, error=f"iteration {number}: {done.error}")
        start = done.commit or start
        after = tuple(f"{path}/{one.id}" for one in step.steps)
        values = await values_for(
            flows,
            spec.run,
            scope.with_results({"": done}),
            [CommandStep(id="u", command=step.until)],
        )
        check = CommandStep(id="until", command=render_command(step.until, values))
        until = WorkSpec(
            path=f"{path}/{UNTIL}", step=check, start=start, after=after, commit=False, **place
        )
        checked = await box.run(until)
        output = checked.text
        if checked.ok:
            return replace(whole, text=output, commit=start)
    error = f"the check did not pass in {step.most} iterations"
    return replace(whole, ok=False, text=output, error=error, commit=start, limit=True)
