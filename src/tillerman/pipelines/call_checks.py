"""Checks a step that calls another pipeline: its inputs are declared there and complete."""

from __future__ import annotations

from tillerman.pipelines import templates
from tillerman.pipelines.definition import Definition
from tillerman.pipelines.document import suggestion
from tillerman.pipelines.input_values import problem_with
from tillerman.pipelines.steps import Pipeline, PipelineStep


def check_call(caller: Definition, step: PipelineStep, callee: Pipeline) -> None:
    for name, text in step.inputs.items():
        at = caller.places[step.id, f"inputs.{name}"]
        if name not in callee.inputs:
            known = tuple(callee.inputs)
            hint = suggestion(name, known) if known else "it has no inputs: remove `inputs`"
            raise caller.file.wrong(at, f"{callee.name!r} has no input {name!r}", hint)
        if templates.names(text):
            continue  # known when the step starts
        if problem := problem_with(callee.inputs[name], text):
            raise caller.file.wrong(
                at, f"input {name!r} of {callee.name!r}: {problem}", "change it"
            )
    for name, one in callee.inputs.items():
        if one.required and name not in step.inputs:
            problem = f"{callee.name!r} needs the input {name!r}"
            at = caller.places[step.id, "pipeline"]
            raise caller.file.wrong(at, problem, f"add `inputs: {{{name}: …}}`")
