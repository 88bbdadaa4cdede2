"""A pipeline file, read and checked: every error names the file, the line and what to write.

`read_definition` checks all that the file itself says; `library.py` adds the agents that exist and
the pipelines that it calls.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple, cast

from tillerman.pipelines.document import SUFFIXES, File, Item, read
from tillerman.pipelines.graph_checks import check_graph
from tillerman.pipelines.step_reader import HUMAN_REVIEW, OF_A_RUN, Place, StepReader, limits
from tillerman.pipelines.steps import (
    AgentStep,
    GitEnd,
    Input,
    Pipeline,
    ReviewStep,
    Step,
)
from tillerman.pipelines.template_checks import check_templates

KEYS = ("name", "description", "inputs", "steps", "process", "workspace", "git", "limits")
TYPES = ("string", "integer", "number", "boolean", "list")
TASK = "task"  # the input of a short form
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_INPUT = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_FIRST = "{{ inputs.task }}"
_AFTER = """\
{{ inputs.task }}

%(id)s has already worked on this task, and reported:

{{ steps.%(id)s.text }}

Files changed so far:
{{ steps.%(id)s.files }}
"""


class Definition(NamedTuple):
    """A pipeline whose called pipelines are not resolved, with the lines of its parts."""

    pipeline: Pipeline
    file: File
    places: Mapping[Place, Item]
    line: int  # where its steps begin


def read_definition(data: bytes, path: str) -> Definition:
    """Raises PipelineFileError for the first error, and nothing else."""
    file = File(path)
    top = read(data, path)
    table = file.table(top, "a pipeline", KEYS)
    steps = StepReader(file)
    if "steps" in table and "process" in table:
        raise file.wrong(table["process"], "both 'steps' and 'process'", "keep one of them")
    values: dict[str, Any] = {"name": _name(file, table.get("name"))}
    if "description" in table:
        values["description"] = file.text(table["description"], "description")
    inputs = _inputs(file, table["inputs"]) if "inputs" in table else {}
    if "process" in table:
        begins = table["process"].line
        values["steps"] = _process(file, table["process"], steps, inputs, "inputs" in table)
    elif "steps" in table:
        begins = table["steps"].line
        values["steps"] = steps.steps(table["steps"], "steps")
    else:
        raise file.wrong(1, "a pipeline without steps", "add `steps:` or `process:`")
    if "workspace" in table:
        known = ("worktree", "shared")
        values["workspace"] = file.choice(table["workspace"], "workspace", known)
    if "git" in table:
        values["git"] = _git(file, table["git"])
    values["limits"] = limits(file, table.get("limits"), OF_A_RUN, "a pipeline")
    pipeline = Pipeline(**values, inputs=inputs)
    check_graph(pipeline, file, steps.places, steps.ids)
    check_templates(pipeline, file, steps.places, _lines_of_inputs(table))
    return Definition(pipeline, file, steps.places, begins)


def _lines_of_inputs(table: Mapping[str, Item]) -> Mapping[str, Item]:
    return cast("dict[str, Item]", table["inputs"].value) if "inputs" in table else {}


def stem_of(path: str) -> str:
    """The name of the pipeline in a file."""
    name = PurePath(path).name
    return next((name.removesuffix(end) for end in SUFFIXES if name.endswith(end)), name)


def _name(file: File, item: Item | None) -> str:
    stem = stem_of(file.path)
    name = file.text(item, "name") if item else stem
    if not _NAME.fullmatch(name):
        hint = "use letters, digits, `_` and `-`, at most 64"
        raise file.wrong(item or 1, f"{name[:64]!r} is not a valid name of a pipeline", hint)
    if name != stem and item:
        problem = f"its name is {name!r}, but the file is named {stem!r}"
        raise file.wrong(item, problem, "use one name")
    return name


def _git(file: File, item: Item) -> GitEnd | None:
    if isinstance(item.value, bool):
        return GitEnd() if item.value else None
    if not isinstance(item.value, dict):
        raise file.wrong(item, f"git must be true, false or a table, not {item.kind}", "write true")
    if "pull_request" in item.value:
        hint = "write `git: true`, and `gh pr create --head tillerman/RUN/RESULT` after the run"
        raise file.wrong(item.value["pull_request"], "a run opens no pull request", hint)
    table = file.table(item, "git", ("commit",))
    if not table:
        raise file.wrong(item, "git is empty", "write `git: true`")
    return GitEnd(**{key: file.flag(value, key) for key, value in table.items()})


# -- inputs ----------------------------------------------------------------------------------------


def _inputs(file: File, item: Item) -> dict[str, Input]:
    found: dict[str, Input] = {}
    for name, one in file.table(item, "inputs").items():
        if not _INPUT.fullmatch(name):
            hint = "use small letters, digits, `_` and `-`, a letter first"
            raise file.wrong(one, f"{name[:40]!r} is not a valid name of an input", hint)
        found[name] = _input(file, name, one)
    return found


def _input(file: File, name: str, item: Item) -> Input:
    if item.value is None:
        return Input()
    if isinstance(item.value, str):
        hint = f"write `{name}: {{description: …}}`, or `{{default: …}}`"
        raise file.wrong(item, f"input {name} must be a table, not a text", hint)
    known = ("description", "type", "default", "required", "choices")
    table = file.table(item, f"input {name}", known)
    values: dict[str, Any] = {}
    if "description" in table:
        values["description"] = file.text(table["description"], "description")
    kind = file.choice(table["type"], "type", TYPES) if "type" in table else "string"
    values["type"] = kind
    if "choices" in table:
        if kind != "string":
            problem = f"choices are for texts, and {name} is of type {kind}"
            raise file.wrong(table["choices"], problem, "remove `choices`, or the type")
        file.list(table["choices"], "choices")
        values["choices"] = file.texts(table["choices"], "choices")
    if "default" in table:
        values["default"] = default = _default(file, name, kind, table["default"])
        values["required"] = False
        if "choices" in values and default not in values["choices"]:
            problem = f"the default {default!r} is not one of the choices"
            raise file.wrong(table["default"], problem, f"choices: {', '.join(values['choices'])}")
    if "required" in table:
        required = file.flag(table["required"], "required")
        if required and "default" in table:
            problem = f"input {name} is required, and has a default"
            raise file.wrong(table["required"], problem, "remove one of them")
        values["required"] = required
    return Input(**values)


def _default(
    file: File, name: str, kind: str, item: Item
) -> str | int | float | bool | tuple[str, ...]:
    value = item.value
    match kind:
        case "string":
            return file.text(item, f"the default of {name}", empty=True)
        case "boolean":
            return file.flag(item, f"the default of {name}")
        case "list":
            if value == ():
                return ()
            file.list(item, f"the default of {name}")
            return file.texts(item, f"the default of {name}")
        case "integer" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            if abs(value) < float("inf"):
                return value
    problem = f"the default of {name} must be of type {kind}, not {item.kind}"
    raise file.wrong(item, problem, "change the default, or the type")


# -- short form ------------------------------------------------------------------------------------


def _process(
    file: File, item: Item, reader: StepReader, inputs: dict[str, Input], declared: bool
) -> tuple[Step, ...]:
    """Agents one after the other on one task, each told what the one before it did."""
    entries = [
        (entry, file.text(entry, "an entry of process")) for entry in file.list(item, "process")
    ]
    if all(name == HUMAN_REVIEW for _, name in entries):
        raise file.wrong(item, "a process without an agent", "name an agent or a profile")
    if not declared:
        inputs[TASK] = Input(description="what the agents work on")
    elif TASK not in inputs:
        raise file.wrong(item, f"a process needs the input {TASK!r}", f"add `{TASK}:` to inputs")
    found: list[Step] = []
    last = ""  # agent
    for entry, name in entries:
        id = _free_id(name, reader.ids)
        reader.add(id, entry)
        needs = (found[-1].id,) if found else ()
        if name == HUMAN_REVIEW:
            found.append(ReviewStep(id=id, needs=needs))
            continue
        reader.places[id, "agent"] = reader.places[id, "prompt"] = entry
        prompt = _AFTER % {"id": last} if last else _FIRST
        found.append(AgentStep(id=id, needs=needs, agents=(name,), prompt=prompt))
        last = id
    return tuple(found)


def _free_id(name: str, taken: Mapping[str, Item]) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    id = words if words[:1].isalpha() else f"step-{words}".strip("-")
    id = id[:56].rstrip("-")
    numbers = (f"{id}-{number}" for number in range(2, len(taken) + 3))
    return id if id not in taken else next(one for one in numbers if one not in taken)
