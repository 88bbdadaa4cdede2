"""What a person asked to be run: a pipeline with inputs, or an earlier run again from a step."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tillerman.core.errors import UsageError
from tillerman.pipelines.document import suggestion
from tillerman.pipelines.input_values import input_values
from tillerman.pipelines.run_git import find_place
from tillerman.pipelines.run_state import RunSpec, StepResult
from tillerman.pipelines.steps import Pipeline, Step
from tillerman.pipelines.templates import Value


def new_id(pipeline: str) -> str:
    return f"{pipeline}-{secrets.token_hex(3)}"


def new_run(pipeline: Pipeline, given: Mapping[str, str], folder: Path) -> RunSpec:
    """Raises `UsageError` for wrong inputs, and for a folder that the pipeline cannot work in."""
    values = _stored(input_values(pipeline, given))
    place = find_place(folder)
    if place is None:
        if pipeline.workspace == "worktree":
            raise UsageError(
                f"{folder} is not in a git repository, so its runs have no worktrees",
                hint="run `git init` and commit, or set `workspace: shared` in the pipeline",
            )
        return RunSpec(pipeline=pipeline, inputs=values, folder=str(folder))
    return RunSpec(
        pipeline=pipeline,
        inputs=values,
        folder=str(folder),
        repository=place.top,
        base=place.commit,
        branch=place.branch,
    )


def again(
    run: str,
    spec: RunSpec,
    results: Mapping[str, StepResult],
    *,
    step: str | None,
    given: Mapping[str, str] = {},
) -> RunSpec:
    """A new run that keeps the results of an earlier one.

    `step` and all that follows from it run again; None: all that did not complete. `given`: inputs
    that differ.
    """
    steps = spec.pipeline.steps
    known = [one.id for one in steps]
    if step is not None and step not in known:
        raise UsageError(f"{run} has no step {step!r}", hint=suggestion(step, known))
    dropped = {step} if step else {id for id in known if not _ok(results.get(id))}
    if not dropped:
        raise UsageError(
            f"all steps of {run} completed", hint="name the step to run again with --from"
        )
    dropped = _with_dependents(steps, dropped)
    seeds = {id: results[id] for id in known if id not in dropped and _ok(results.get(id))}
    inputs = spec.inputs
    if given:
        inputs = _stored(input_values(spec.pipeline, {**_texts(spec), **given}))
    return replace(spec, inputs=inputs, seeds=seeds, forked_from=run)


def _ok(result: StepResult | None) -> bool:
    return result is not None and result.ok


def _with_dependents(steps: Sequence[Step], ids: set[str]) -> set[str]:
    found = set(ids)
    while more := {one.id for one in steps if set(one.needs) & found} - found:
        found |= more
    return found


def _stored(values: Mapping[str, Value]) -> dict[str, str | tuple[str, ...]]:
    return {
        name: value if isinstance(value, str) else tuple(value) for name, value in values.items()
    }


def _texts(spec: RunSpec) -> dict[str, str]:
    """The inputs of a run as they would be given; those that are empty were not given."""
    return {
        name: value if isinstance(value, str) else "\n".join(value)
        for name, value in spec.inputs.items()
        if value
    }
