"""Tracks the agent's to-do list through the tool calls that change it."""

from __future__ import annotations

from typing import Literal

from tillerman.agents.claude.tools import ClaudeToolCall, ClaudeToolResult
from tillerman.agents.decoding.fields import Table, table, tables, text
from tillerman.core.events import PlanChanged, PlanStep

CHANGES_PLAN = frozenset({"TodoWrite", "TaskCreate", "TaskUpdate"})

Status = Literal["pending", "in_progress", "completed"]


class ClaudeTodoList:
    """The list of one agent; `TodoWrite` replaces it, `TaskCreate`/`TaskUpdate` change a step."""

    def __init__(self, parent: str | None) -> None:
        self.parent = parent
        self._steps: dict[str, PlanStep] = {}

    def follow(self, call: ClaudeToolCall, result: ClaudeToolResult) -> PlanChanged | None:
        """The changed list after a successful call; None if it is unchanged."""
        before = dict(self._steps)
        details = result.details if isinstance(result.details, dict) else {}
        match call.name:
            case "TodoWrite":
                todos = tables(call.input, "todos")
                self._steps = {str(i): _step(todo, "content") for i, todo in enumerate(todos)}
            case "TaskCreate":
                created = table(details, "task")
                self._steps[text(created, "id")] = _step(call.input, "subject")
            case "TaskUpdate":
                self._update(text(call.input, "taskId"), call.input)
        if self._steps == before:
            return None
        return PlanChanged(steps=tuple(self._steps.values()), parent=self.parent)

    def _update(self, step_id: str, input: Table) -> None:
        step = self._steps.get(step_id)
        if step is None:
            return
        if text(input, "status") == "deleted":
            del self._steps[step_id]
        else:
            self._steps[step_id] = PlanStep(
                text(input, "subject") or step.text, _status(input, step.status)
            )


def _step(todo: Table, key: str) -> PlanStep:
    return PlanStep(text(todo, key), _status(todo, "pending"))


def _status(todo: Table, otherwise: Status) -> Status:
    match todo.get("status"):
        case "pending":
            return "pending"
        case "in_progress":
            return "in_progress"
        case "completed":
            return "completed"
    return otherwise
