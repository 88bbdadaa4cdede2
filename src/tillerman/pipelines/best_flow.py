"""Several attempts at one task, and a judge that chooses which is kept."""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from tillerman.pipelines.flow_specs import BestSpec, GateSpec, WorkSpec
from tillerman.pipelines.run_git import branch_of
from tillerman.pipelines.run_state import StepResult
from tillerman.pipelines.steps import AgentJudge, AgentStep, CommandJudge, CommandStep, PersonJudge
from tillerman.pipelines.workflows import Mailbox, Workflows

JUDGE = "JUDGE"
_SCORE = re.compile(r"^\s*score:\s*(-?\d+(?:\.\d+)?)\s*$", re.IGNORECASE | re.MULTILINE)
_WINNER = re.compile(r"^\W*winner\W*\s*c?(\d+)\W*$", re.IGNORECASE | re.MULTILINE)
_SHOWN = 4_000  # characters of a candidate's text that a judge is shown


async def best(flows: Workflows, spec: BestSpec) -> StepResult:
    box = Mailbox(flows, spec)
    names = [f"c{number}" for number in range(len(spec.step.attempts))]
    place: dict[str, Any] = {"run": spec.run, "parent": spec.id}
    for name, attempt in zip(names, spec.step.attempts, strict=True):
        await box.start(
            WorkSpec(
                path=spec.inside(name), step=attempt, start=spec.start, after=spec.after, **place
            )
        )
    results: dict[str, StepResult] = {}
    while len(box):
        path, result = await box.receive()
        results[path.rpartition("/")[2]] = result
    cost = sum(one.cost or 0.0 for one in results.values())
    candidates = {name: results[name] for name in names if results[name].ok}
    if not candidates:
        return replace(results[names[0]], error=f"no attempt succeeded: {results[names[0]].error}")
    match spec.step.judge:
        case CommandJudge(command):
            chosen, judged = await _by_command(box, spec, candidates, command)
        case AgentJudge():
            chosen, judged = await _by_agent(box, spec, candidates, spec.step.judge)
        case PersonJudge(message):
            chosen, judged = await _by_person(box, spec, candidates, message)
    cost += judged.cost or 0.0
    if not chosen:
        return replace(judged, ok=False, cost=cost or None)
    return replace(candidates[chosen], choice=chosen, cost=cost or None)


async def _by_command(
    box: Mailbox, spec: BestSpec, candidates: dict[str, StepResult], command: str
) -> tuple[str, StepResult]:
    """The highest `score:` line among those that pass; without any, the first that passes."""
    for name, candidate in candidates.items():
        check = CommandStep(id="judge", command=command, limits=spec.step.limits)
        await box.start(
            WorkSpec(
                run=spec.run,
                path=spec.inside(f"{name}/{JUDGE}"),
                parent=spec.id,
                step=check,
                start=candidate.commit or spec.start,
                commit=False,
            )
        )
    judged: dict[str, StepResult] = {}
    while len(box):
        path, result = await box.receive()
        judged[path.split("/")[-2]] = result
    passed = [name for name in candidates if judged[name].ok]
    if not passed:
        first = judged[next(iter(candidates))]
        return "", StepResult(
            ok=False, error="the judge's command passed for none", text=first.text
        )
    scores = {
        name: float(found[-1]) for name in passed if (found := _SCORE.findall(judged[name].text))
    }
    chosen = max(scores, key=lambda name: scores[name]) if scores else passed[0]
    return chosen, StepResult(ok=True)


async def _by_agent(
    box: Mailbox, spec: BestSpec, candidates: dict[str, StepResult], judge: AgentJudge
) -> tuple[str, StepResult]:
    step = AgentStep(
        id="judge",
        agents=judge.agents,
        prompt=_question(spec, candidates, judge.prompt),
        mode="ask",
        limits=spec.step.limits,
    )
    path = spec.inside(JUDGE)
    judged = await box.run(
        WorkSpec(run=spec.run, path=path, parent=spec.id, step=step, start=spec.start, commit=False)
    )
    if not judged.ok:
        return "", replace(judged, error=f"the judge failed: {judged.error}")
    found = _WINNER.findall(judged.text)
    name = f"c{found[-1]}" if found else ""
    if name not in candidates:
        error = "the judge named no candidate: its answer has no line `winner: NUMBER`"
        return "", replace(judged, ok=False, error=error)
    return name, judged


async def _by_person(
    box: Mailbox, spec: BestSpec, candidates: dict[str, StepResult], message: str
) -> tuple[str, StepResult]:
    gate = GateSpec(
        run=spec.run,
        path=spec.inside(JUDGE),
        parent=spec.id,
        message=message or "Choose the attempt that is kept",
        account=_shown(spec, candidates),
        choices=tuple(candidates),
        start=spec.start,
        base=spec.start,
    )
    answer = await box.run(gate)
    if not answer.ok:
        return "", answer
    return answer.choice or next(iter(candidates)), answer


def _question(spec: BestSpec, candidates: dict[str, StepResult], prompt: str) -> str:
    asked = prompt or "Judge which of these attempts solves its task best."
    ending = "End your answer with one line: `winner: NUMBER`."
    return f"{asked}\n\n{_shown(spec, candidates)}\n\n{ending}"


def _shown(spec: BestSpec, candidates: dict[str, StepResult]) -> str:
    parts = []
    for name, one in candidates.items():
        lines = [f"## Attempt {name[1:]}", one.text[:_SHOWN]]
        if one.commit:
            branch = branch_of(spec.run, spec.inside(name))
            lines.append(f"Its changes: `git diff {one.base}..{branch}`")
        if one.files:
            lines.append("Files: " + ", ".join(one.files[:20]))
        parts.append("\n".join(filter(None, lines)))
    return "\n\n".join(parts)
