"""Inputs of the engine's workflows, and the values that templates in them can name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tillerman.pipelines.run_state import StepResult
from tillerman.pipelines.steps import BestOfStep, LoopStep, MapStep, Step
from tillerman.pipelines.templates import Value


class Scope(Struct, frozen=True, omit_defaults=True):
    inputs: dict[str, str | tuple[str, ...]] = {}
    results: dict[str, StepResult] = {}  # of the steps before, by id
    values: dict[str, str] = {}  # run.id, of the loop, the item of a map

    def all_values(self, diffs: Mapping[str, str] = {}) -> dict[str, Value]:
        """What templates can name. `diffs`: the changes of steps, by their id."""
        values: dict[str, Value] = dict(self.values)
        values |= {f"inputs.{name}": value for name, value in self.inputs.items()}
        for id, result in self.results.items():
            step = f"steps.{id}"
            code = "" if result.code is None else str(result.code)
            values |= {f"{step}.text": result.text, f"{step}.output": result.text}
            values |= {f"{step}.exit": code, f"{step}.files": result.files}
            values[f"{step}.diff"] = diffs.get(id, "")
        return values

    def with_results(self, results: dict[str, StepResult]) -> Scope:
        flat = dict(self.results)
        for id, result in results.items():
            flat |= result.steps
            flat[id] = result
        return replace(self, results=flat)

    def with_values(self, **values: str) -> Scope:
        return replace(self, values={**self.values, **values})

    def for_steps(self, steps: Sequence[Step]) -> Scope:
        """Leaves out results that none of these steps can name, so that inputs stay small."""
        text = msgspec.json.encode(steps)
        named = {
            id: replace(one, steps={}) for id, one in self.results.items() if id.encode() in text
        }
        return replace(self, results=named)


class _Flow(Struct, frozen=True, omit_defaults=True, kw_only=True):
    run: str
    path: str  # empty: the run itself
    parent: str = ""  # workflow that waits for the result
    start: str = ""  # commit; empty: no repository
    after: tuple[str, ...] = ()  # paths of the steps before it

    @property
    def id(self) -> str:
        return f"{self.run}/{self.path}" if self.path else self.run

    def inside(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name


class GraphSpec(_Flow, frozen=True, kw_only=True):
    steps: tuple[Step, ...]
    scope: Scope = Scope()
    seeds: dict[str, StepResult] = {}


class LoopSpec(_Flow, frozen=True, kw_only=True):
    step: LoopStep
    scope: Scope


class MapSpec(_Flow, frozen=True, kw_only=True):
    step: MapStep
    scope: Scope


class BestSpec(_Flow, frozen=True, kw_only=True):
    step: BestOfStep  # its templates are filled in


class GateSpec(_Flow, frozen=True, kw_only=True):
    message: str = ""
    account: str = ""
    choices: tuple[str, ...] = ()
    base: str = ""  # the diff from here to `start` is under review


class WorkSpec(_Flow, frozen=True, kw_only=True):
    """One agent or command."""

    step: Step  # its templates are filled in
    commit: bool = True


FlowSpec = GraphSpec | LoopSpec | MapSpec | BestSpec | GateSpec | WorkSpec
