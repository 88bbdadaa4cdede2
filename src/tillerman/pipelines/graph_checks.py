"""Checks that the steps of each level form a graph: known needs, and no cycle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tillerman.pipelines.document import File, Item, suggestion
from tillerman.pipelines.step_reader import Place
from tillerman.pipelines.steps import LoopStep, MapStep, ParallelStep, Pipeline, Step


def check_graph(
    pipeline: Pipeline, file: File, places: Mapping[Place, Item], ids: Mapping[str, Item]
) -> None:
    for level in levels(pipeline.steps):
        beside = [step.id for step in level]
        for step in level:
            for needed in step.needs:
                if needed in beside:
                    continue
                at = places[step.id, "needs"]
                if needed in ids:
                    problem = f"{step.id!r} needs {needed!r}, which is not beside it"
                    hint = f"a step needs steps of its own list: {', '.join(beside)}"
                    raise file.wrong(at, problem, hint)
                others = [id for id in beside if id != step.id]
                hint = suggestion(needed, others, "" if others else "there is no other step")
                raise file.wrong(at, f"{step.id!r} needs an unknown step {needed!r}", hint)
        if cycle := find_cycle(level):
            at = next(
                (places[id, "needs"] for id in cycle if (id, "needs") in places), ids[cycle[0]]
            )
            if len(cycle) == 1:
                raise file.wrong(at, f"{cycle[0]!r} needs itself", "remove it from `needs`")
            shown = " → ".join([*cycle, cycle[0]])
            raise file.wrong(at, f"a cycle of needs: {shown}", "remove one of these needs")


def inner_steps(step: Step) -> tuple[Step, ...]:
    """The steps inside of one; the attempts of best_of are no steps that others can need."""
    return step.steps if isinstance(step, ParallelStep | LoopStep | MapStep) else ()


def levels(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Each list of steps: those of the pipeline, then those inside of its steps."""
    yield steps
    for step in steps:
        if inner := inner_steps(step):
            yield from levels(inner)


def every_step(steps: tuple[Step, ...]) -> Iterator[Step]:
    for level in levels(steps):
        yield from level


def find_cycle(level: Sequence[Step]) -> list[str]:
    """The ids of one cycle of needs; empty if there is none."""
    needs = {step.id: step.needs for step in level}
    while free := [id for id, wanted in needs.items() if not any(one in needs for one in wanted)]:
        for id in free:
            del needs[id]
    if not needs:
        return []
    path = [next(iter(needs))]
    while True:  # every step that is left needs one that is left
        following = next(one for one in needs[path[-1]] if one in needs)
        if following in path:
            return path[path.index(following) :]
        path.append(following)


def ancestors(level: Sequence[Step]) -> dict[str, frozenset[str]]:
    """For each step of a level without cycles: all that end before it starts."""
    found: dict[str, frozenset[str]] = {}
    needs = {step.id: step.needs for step in level}
    while len(found) < len(needs):
        for id, wanted in needs.items():
            if id not in found and all(one in found for one in wanted):
                found[id] = frozenset(wanted).union(*(found[one] for one in wanted))
    return found
