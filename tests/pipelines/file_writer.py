"""Writes a pipeline as a file would say it: the way back, for tests of the reader."""

from __future__ import annotations

from typing import Any

import tomlkit
import yaml

from tillerman.pipelines.steps import (
    AgentJudge,
    AgentStep,
    BestOfStep,
    CommandJudge,
    CommandStep,
    Input,
    Limits,
    LoopStep,
    MapStep,
    ParallelStep,
    Pipeline,
    PipelineStep,
    ReviewStep,
    Step,
)


def as_yaml(pipeline: Pipeline) -> bytes:
    return bytes(yaml.safe_dump(document(pipeline), allow_unicode=True, sort_keys=False), "utf-8")


def as_toml(pipeline: Pipeline) -> bytes:
    return tomlkit.dumps(document(pipeline)).encode()


def document(pipeline: Pipeline) -> dict[str, Any]:
    """Every field that has not its default."""
    found: dict[str, Any] = {"name": pipeline.name}
    if pipeline.description:
        found["description"] = pipeline.description
    if pipeline.inputs:
        found["inputs"] = {name: _input(one) for name, one in pipeline.inputs.items()}
    found["steps"] = _steps(pipeline.steps)
    if pipeline.workspace != "worktree":
        found["workspace"] = pipeline.workspace
    if pipeline.git:
        found["git"] = {"commit": pipeline.git.commit}
    return found | _limits(pipeline.limits)


def _input(one: Input) -> dict[str, Any]:
    found: dict[str, Any] = {"type": one.type}
    if one.description:
        found["description"] = one.description
    if one.default is not None:
        found["default"] = list(one.default) if isinstance(one.default, tuple) else one.default
    else:
        found["required"] = one.required
    if one.choices:
        found["choices"] = list(one.choices)
    return found


def _limits(limits: Limits) -> dict[str, Any]:
    names = ("time", "cost", "turns")
    given = {name: getattr(limits, name) for name in names if getattr(limits, name) is not None}
    return {"limits": given} if given else {}


def _steps(steps: tuple[Step, ...]) -> list[dict[str, Any]]:
    return [_step(step) for step in steps]


def _step(step: Step) -> dict[str, Any]:
    return {"id": step.id, "needs": list(step.needs), **_limits(step.limits), **_kind(step)}


def _kind(step: Step) -> dict[str, Any]:
    match step:
        case AgentStep() | CommandStep():
            return _attempt(step)
        case ReviewStep():
            return {"review": step.message or "HUMAN_REVIEW"}
        case ParallelStep():
            return {"parallel": _steps(step.steps)}
        case LoopStep():
            loop = {"until": step.until, "most": step.most, "steps": _steps(step.steps)}
            return {"loop": loop}
        case MapStep():
            over = step.items if isinstance(step.items, str) else list(step.items)
            each = {"over": over, "as": step.name, "width": step.width}
            return {"map": {**each, "steps": _steps(step.steps)}}
        case PipelineStep():
            return {"pipeline": step.pipeline, "inputs": dict(step.inputs)}
        case BestOfStep():
            return {"best_of": _best_of(step)}


def _best_of(step: BestOfStep) -> dict[str, Any]:
    first = step.attempts[0]
    found: dict[str, Any] = {"attempts": len(step.attempts), **_attempt(first)}
    if isinstance(first, AgentStep) and len({one.agents for one in step.attempts}) > 1:  # type: ignore[union-attr]
        found.pop("agent")
        found["attempts"] = [one.agents[0] for one in step.attempts]  # type: ignore[union-attr]
    match step.judge:
        case CommandJudge(command):
            found["judge"] = {"run": command}
        case AgentJudge():
            prompt = {"prompt": step.judge.prompt} if step.judge.prompt else {}
            found["judge"] = {"agent": list(step.judge.agents), **prompt}
        case person:
            found["judge"] = {"review": person.message or "HUMAN_REVIEW"}
    return found


def _attempt(step: AgentStep | CommandStep) -> dict[str, Any]:
    if isinstance(step, CommandStep):
        return {"run": step.command, "exits": list(step.exits)}
    options = {
        "mode": step.mode,
        "model": step.model,
        "approve": step.approve,
    }
    return {
        "agent": list(step.agents),
        "prompt": step.prompt,
        "tools": step.tools,
        "interrupted": step.interrupted,
        **{name: value for name, value in options.items() if value is not None},
    }
