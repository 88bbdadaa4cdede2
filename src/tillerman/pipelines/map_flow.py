"""Runs the same steps for each item of a list, some of them at the same time."""

from __future__ import annotations

from tillerman.pipelines.flow_specs import GraphSpec, MapSpec
from tillerman.pipelines.merge_step import merge_gate, merge_step
from tillerman.pipelines.run_state import StepResult
from tillerman.pipelines.template_values import values_for
from tillerman.pipelines.templates import render, render_list
from tillerman.pipelines.workflows import Mailbox, Workflows

MOST_ITEMS = 10_000


async def map_items(flows: Workflows, spec: MapSpec) -> StepResult:
    step, box = spec.step, Mailbox(flows, spec)
    values = await values_for(flows, spec.run, spec.scope, [step])
    if isinstance(step.items, str):
        items = render_list(step.items, values)
    else:
        items = tuple(render(item, values) for item in step.items)
    if len(items) > MOST_ITEMS:
        return StepResult(ok=False, error=f"{len(items)} items: at most {MOST_ITEMS} are allowed")
    results: dict[int, StepResult] = {}
    started = 0
    while started < len(items) or len(box):
        while started < len(items) and len(box) < step.width:
            child = GraphSpec(
                run=spec.run,
                path=spec.inside(f"m{started}"),
                parent=spec.id,
                steps=step.steps,
                scope=spec.scope.with_values(**{step.name: items[started]}),
                start=spec.start,
                after=spec.after,
            )
            await box.start(child)
            started += 1
        path, result = await box.receive()
        results[int(path.rpartition("/m")[2])] = result
    return await _whole(flows, spec, box, items, [results[at] for at in range(len(items))])


async def _whole(
    flows: Workflows, spec: MapSpec, box: Mailbox, items: tuple[str, ...], done: list[StepResult]
) -> StepResult:
    cost = sum(one.cost or 0.0 for one in done) or None
    text = "\n\n".join(one.text for one in done if one.text)
    files = tuple(dict.fromkeys(file for one in done for file in one.files))
    failed = [(item, one) for item, one in zip(items, done, strict=True) if not one.ok]
    commits = list(dict.fromkeys(one.commit for one in done if one.ok and one.commit))
    commit = commits[0] if commits else spec.start
    if not failed and len(commits) > 1:
        merged = await merge_step(flows, spec.run, commits)
        commit = merged.commit
        if merged.conflicts:
            answer = await box.run(merge_gate(spec, spec.path, merged))
            if not answer.ok:
                return StepResult(ok=False, error=answer.error, rejected=answer.rejected)
            commit = answer.commit
    result = StepResult(
        ok=not failed, text=text, commit=commit, base=spec.start, files=files, cost=cost
    )
    if not failed:
        return result
    item, first = failed[0]
    return StepResult(
        ok=False,
        error=f"{len(failed)} of {len(items)} items failed; the first: {item[:80]}: {first.error}",
        text=text,
        commit=commit,
        cost=cost,
        rejected=first.rejected,
        limit=first.limit,
    )
