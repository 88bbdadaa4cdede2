"""A gate: the workflow waits until a person has answered."""

from __future__ import annotations

import msgspec
from dbos import DBOS

from tillerman.pipelines.flow_specs import GateSpec
from tillerman.pipelines.run_state import Answer, Gate, StepResult
from tillerman.pipelines.workflows import ANSWER, FIRST_POLL, LONGEST_POLL, Workflows


async def gate(flows: Workflows, spec: GateSpec) -> StepResult:
    store, blocking = flows.worker.store, flows.worker.blocking

    async def open_gate() -> None:
        opened = Gate(
            run=spec.run, path=spec.path, message=spec.message, account=spec.account,
            commit=spec.start, base=spec.base, choices=spec.choices,
        )  # fmt: skip
        await blocking(store.open_gate, opened)
        await blocking(store.wait_at, spec.run, spec.path)

    async def look() -> dict[str, str] | None:
        """Finds an answer whose message was lost."""
        found = await blocking(store.gate, spec.run, spec.path)
        return msgspec.to_builtins(found.answer) if found and found.answer else None

    async def close() -> None:
        await blocking(store.leave_gate, spec.run, spec.path, result)

    await flows.step("open", open_gate)
    poll = FIRST_POLL
    while True:
        told = await DBOS.recv_async(ANSWER, timeout_seconds=poll)
        if told is None:
            told = await flows.step("look", look)
            poll = min(poll * 2, LONGEST_POLL)
        if told is not None:
            break
    result = _result(spec, msgspec.convert(told, Answer))
    await flows.step("close", close)
    return result


def _result(spec: GateSpec, answer: Answer) -> StepResult:
    if answer.decision == "reject":
        error = f"rejected: {answer.text}" if answer.text else "rejected"
        return StepResult(ok=False, text=answer.text, error=error, rejected=True)
    return StepResult(
        ok=True,
        text=answer.text or spec.account,
        commit=answer.commit or spec.start,
        choice=answer.choice,
    )
