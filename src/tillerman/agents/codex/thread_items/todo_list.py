"""Decodes the agent's to-do list from `turn/plan/updated`."""

from __future__ import annotations

from typing import Literal

from tillerman.agents.decoding.fields import Table, tables, text
from tillerman.core.events import PlanStep

_STATUS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "pending": "pending",
    "inProgress": "in_progress",
    "completed": "completed",
}


def steps(params: Table) -> tuple[PlanStep, ...]:
    return tuple(
        PlanStep(text(step, "step"), _STATUS.get(text(step, "status"), "pending"))
        for step in tables(params, "plan")
    )
