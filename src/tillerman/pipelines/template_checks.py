"""Checks the templates of a pipeline: known names, steps that end before, and inputs all used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tillerman.pipelines import shell_values, templates
from tillerman.pipelines.document import File, Item, suggestion
from tillerman.pipelines.graph_checks import ancestors, every_step, inner_steps
from tillerman.pipelines.names import LOOP, RESERVED, RESULTS, RUN
from tillerman.pipelines.step_reader import Place
from tillerman.pipelines.steps import (
    AgentJudge,
    AgentStep,
    BestOfStep,
    CommandJudge,
    CommandStep,
    LoopStep,
    MapStep,
    ParallelStep,
    Pipeline,
    PipelineStep,
    ReviewStep,
    Step,
)
from tillerman.pipelines.templates import Placeholder, TemplateError

MOST_VALUES = 200  # in one text; the check of a command reads what is before each


class _Scope(NamedTuple):
    """What the templates of a step can name."""

    before: Mapping[str, Step]  # by id
    names: tuple[str, ...] = RUN  # run.id, loop.output, item


class _Template(NamedTuple):
    id: str  # of its step
    key: str  # where it stands in the step
    text: str
    scope: _Scope
    command: bool = False


def check_templates(
    pipeline: Pipeline, file: File, places: Mapping[Place, Item], inputs: Mapping[str, Item]
) -> None:
    """`inputs`: where each is declared; those of a short form are not."""
    _Checks(pipeline, file, places).check(inputs)


class _Checks:
    def __init__(self, pipeline: Pipeline, file: File, places: Mapping[Place, Item]) -> None:
        self._pipeline = pipeline
        self._file = file
        self._places = places
        self._steps = {step.id: step for step in every_step(pipeline.steps)}
        self._attempts = {
            attempt.id: step
            for step in self._steps.values()
            if isinstance(step, BestOfStep)
            for attempt in step.attempts
        }
        self._used: set[str] = set()

    def check(self, inputs: Mapping[str, Item]) -> None:
        for template in self._of_level(self._pipeline.steps, _Scope({})):
            self._check(template)
        for name, item in inputs.items():
            if name not in self._used:
                hint = f"use `{{{{ inputs.{name} }}}}` in a step, or remove it"
                raise self._file.wrong(item, f"input {name!r} is not used", hint)

    # -- what the file has ------------------------------------------------------------------------

    def _of_level(self, level: tuple[Step, ...], outer: _Scope) -> Iterator[_Template]:
        before = ancestors(level)
        by_id = {step.id: step for step in level}
        for step in level:
            visible = dict(outer.before)
            for id in before[step.id]:
                visible |= _with_inner(by_id[id])
            yield from self._of_step(step, _Scope(visible, outer.names))

    def _of_step(self, step: Step, scope: _Scope) -> Iterator[_Template]:
        id = step.id
        match step:
            case AgentStep():
                yield _Template(id, "prompt", step.prompt, scope)
            case CommandStep():
                yield _Template(id, "run", step.command, scope, command=True)
            case ReviewStep():
                yield _Template(id, "review", step.message, scope)
            case PipelineStep():
                for name, text in step.inputs.items():
                    yield _Template(id, f"inputs.{name}", text, scope)
            case ParallelStep():
                yield from self._of_level(step.steps, scope)
            case LoopStep():
                inside = _Scope(scope.before, _joined(scope.names, LOOP))
                yield from self._of_level(step.steps, inside)
                done = {**scope.before, **_all_with_inner(step.steps)}
                until = _Scope(done, inside.names)
                yield _Template(id, "until", step.until, until, command=True)
            case MapStep():
                yield from self._of_map(step, scope)
            case BestOfStep():
                yield from self._of_best(step, scope)

    def _of_map(self, step: MapStep, scope: _Scope) -> Iterator[_Template]:
        if isinstance(step.items, str):
            yield _Template(step.id, "over", step.items, scope)
            if not templates.names(step.items):
                at = self._places[step.id, "over"]
                hint = 'write a list, or a template such as "{{ steps.list.output }}"'
                raise self._file.wrong(at, "map goes over a text that is always the same", hint)
        at = self._places.get((step.id, "as"), self._places[step.id, "over"])
        if step.name in RESERVED:
            problem = f"{step.name!r} is a name of templates already"
            raise self._file.wrong(at, problem, "choose another name in `as`")
        if step.name in scope.names:
            problem = f"the map around this one names its item {step.name!r} too"
            raise self._file.wrong(at, problem, "choose another name in `as`")
        yield from self._of_level(step.steps, _Scope(scope.before, (*scope.names, step.name)))

    def _of_best(self, step: BestOfStep, scope: _Scope) -> Iterator[_Template]:
        first = step.attempts[0]  # all have the same text
        if isinstance(first, AgentStep):
            yield _Template(step.id, "prompt", first.prompt, scope)
        else:
            yield _Template(step.id, "run", first.command, scope, command=True)
        match step.judge:
            case CommandJudge(command):
                yield _Template(step.id, "judge.run", command, scope, command=True)
            case AgentJudge():
                yield _Template(step.id, "judge.prompt", step.judge.prompt, scope)
            case person:
                yield _Template(step.id, "judge.review", person.message, scope)

    # -- what it means ----------------------------------------------------------------------------

    def _check(self, template: _Template) -> None:
        at = self._places.get((template.id, template.key))
        try:
            pieces = templates.parse(template.text)
            if len(pieces) > 2 * MOST_VALUES:
                raise TemplateError(0, f"more than {MOST_VALUES} values in one text", "use fewer")
            for piece in pieces:
                if isinstance(piece, Placeholder):
                    self._check_name(piece, template)
            if template.command:
                shell_values.check(pieces)
        except TemplateError as error:
            line = self._line(template, at, error.line)
            raise self._file.wrong(line, error.problem, error.hint) from None

    def _line(self, template: _Template, at: Item | None, line: int) -> int:
        if at is None:
            return 1
        return at.line if at.text_line is None else at.text_line + line

    def _check_name(self, piece: Placeholder, template: _Template) -> None:
        first = piece.parts[0]
        known = template.scope.names
        if piece.name in known:
            return
        if first == "inputs":
            self._check_input(piece)
        elif first == "steps":
            self._check_step(piece, template)
        elif first == "loop" and not any(name in known for name in LOOP):
            problem = f"`{piece.name}` is used outside of a loop"
            raise _bad(piece, problem, "use it in the steps of a `loop`")
        else:
            every = (*known, *(f"inputs.{name}" for name in self._pipeline.inputs))
            hint = suggestion(piece.name, every, "known: inputs.NAME, steps.ID.text, run.id")
            raise _bad(piece, f"unknown name `{piece.name}`", hint)

    def _check_input(self, piece: Placeholder) -> None:
        known = tuple(self._pipeline.inputs)
        if len(piece.parts) != 2:
            raise _bad(piece, f"`{piece.name}` is not a value", "write `{{ inputs.NAME }}`")
        name = piece.parts[1]
        if name not in known:
            hint = f"add `{name}:` to `inputs:`"
            near = suggestion(name, known, hint) if known else hint
            raise _bad(piece, f"unknown input {name!r}", near)
        self._used.add(name)

    def _check_step(self, piece: Placeholder, template: _Template) -> None:
        if len(piece.parts) != 3:
            raise _bad(piece, f"`{piece.name}` is not a value", "write `{{ steps.ID.text }}`")
        _, id, field = piece.parts
        before = template.scope.before
        if id not in before:
            raise _bad(piece, *self._why_not(id, template))
        known = RESULTS[type(before[id])]
        if field not in known:
            problem = f"step {id!r} has no {field!r}"
            raise _bad(piece, problem, f"known: {', '.join(known)}")

    def _why_not(self, id: str, template: _Template) -> tuple[str, str]:
        """The problem with a step that is not among those that end before, and what to do."""
        if id == template.id:
            return f"step {id!r} uses its own result", "use that of an earlier step"
        if id in self._attempts:
            best = self._attempts[id].id
            return f"{id!r} is an attempt of {best!r}", f"use `{{{{ steps.{best}.text }}}}`"
        if id not in self._steps:
            known = template.scope.before
            return f"unknown step {id!r}", suggestion(
                id, known, "" if known else "no step is before"
            )
        for step in self._steps.values():
            if isinstance(step, MapStep) and id in _ids(step.steps):
                use = f"use `{{{{ steps.{step.id}.text }}}}`"
                return f"step {id!r} runs once for each item of {step.id!r}", use
            if id == step.id and template.id in _ids(inner_steps(step)):
                return f"step {id!r} is around this one", "use a step before it"
        return (
            f"step {id!r} may not have ended before {template.id!r}",
            f"add {id!r} to its `needs`",
        )


def _bad(piece: Placeholder, problem: str, hint: str) -> TemplateError:
    return TemplateError(piece.line, problem, hint)


def _with_inner(step: Step) -> dict[str, Step]:
    """A step that has ended, and those inside of it whose results are one each."""
    inner = inner_steps(step) if not isinstance(step, MapStep) else ()
    return {step.id: step, **_all_with_inner(inner)}


def _all_with_inner(steps: tuple[Step, ...]) -> dict[str, Step]:
    found: dict[str, Step] = {}
    for step in steps:
        found |= _with_inner(step)
    return found


def _ids(steps: tuple[Step, ...]) -> frozenset[str]:
    return frozenset(step.id for step in every_step(steps))


def _joined(names: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *more)))
