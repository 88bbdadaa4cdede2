"""A pipeline as a graph to show: each step with its kind, a line about it, and those inside it."""

from __future__ import annotations

from msgspec import Struct

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

_LONGEST = 60


class Node(Struct, frozen=True):
    id: str
    kind: str
    detail: str  # one line
    needs: tuple[str, ...] = ()  # of the same level
    inside: tuple[Node, ...] = ()


def nodes(pipeline: Pipeline) -> tuple[Node, ...]:
    """The steps of a pipeline, each after those that it needs."""
    return _level(pipeline.steps)


def _level(steps: tuple[Step, ...]) -> tuple[Node, ...]:
    """In the order of the file, but for steps that need later ones."""
    placed: dict[str, Step] = {}
    waiting = list(steps)
    while waiting:
        ready = next(step for step in waiting if all(one in placed for one in step.needs))
        placed[ready.id] = ready
        waiting.remove(ready)
    return tuple(_node(step) for step in placed.values())


def _node(step: Step) -> Node:
    match step:
        case AgentStep():
            return Node(step.id, "agent", _agents(step.agents), step.needs)
        case CommandStep():
            return Node(step.id, "run", _line(step.command), step.needs)
        case ReviewStep():
            return Node(step.id, "review", _line(step.message) or "a person", step.needs)
        case ParallelStep():
            return Node(step.id, "parallel", "", step.needs, _level(step.steps))
        case LoopStep():
            detail = f"until {_line(step.until)}, at most {step.most} times"
            return Node(step.id, "loop", detail, step.needs, _level(step.steps))
        case MapStep():
            many = isinstance(step.items, tuple)
            over = f"{len(step.items)} items" if many else _line(str(step.items))
            detail = f"{step.name} of {over}, {step.width} at once"
            return Node(step.id, "map", detail, step.needs, _level(step.steps))
        case PipelineStep():
            return Node(step.id, "pipeline", step.pipeline, step.needs)
        case BestOfStep():
            inside = tuple(_node(one) for one in step.attempts)
            return Node(step.id, "best_of", _judge(step), step.needs, inside)


def _judge(step: BestOfStep) -> str:
    match step.judge:
        case CommandJudge(command):
            return f"judge: {_line(command)}"
        case AgentJudge():
            return f"judge: {_agents(step.judge.agents)}"
        case _:
            return "judge: a person"


def _agents(names: tuple[str, ...]) -> str:
    first, *others = names
    return first + (f", else {', '.join(others)}" if others else "")


def _line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
