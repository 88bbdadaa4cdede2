"""Maps tool calls of Qwen Code's stream to events: start, outcome, content."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from tillerman.agents.acp.tools import shown, vocabulary
from tillerman.agents.decoding.fields import Table, storable, tables, text
from tillerman.agents.qwen.launch import ROW
from tillerman.core import tools
from tillerman.core.events import Content, Diff, PlanStep, Text, ToolStarted

Outcome = Literal["completed", "failed", "denied", "cancelled"]

_CANCELLED = "[Operation Cancelled] Reason: "
_DECLINED = "Qwen Code requires permission to use "
_FAILED_COMMAND = re.compile(r"^Exit Code: [1-9]", re.MULTILINE)
_STEPS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "in_progress": "in_progress",
    "completed": "completed",
}


def started(call_id: str, name: str, given: Table, parent: str | None, cwd: str) -> ToolStarted:
    input = storable(given)
    tool = vocabulary(name, "", input, ROW)
    return ToolStarted(
        call_id=call_id,
        tool=tool,
        name=name,
        title=tools.title(tool, input, name=shown(name), cwd=cwd),
        input=input,
        paths=tools.paths_of(input),
        parent=parent,
    )


def outcome(call: ToolStarted, result: Table, *, denied: bool, cancelling: bool) -> Outcome:
    """The outcome of a `tool_result`; a missing answer counts as a deny after a timeout."""
    message = text(result, "content")
    if result.get("is_error") is not True:
        failed = call.tool == "Bash" and _FAILED_COMMAND.search(message)
        return "failed" if failed else "completed"
    if denied or message.startswith(_DECLINED):
        return "denied"
    if message.startswith(_CANCELLED):
        return "cancelled" if cancelling else "denied"
    return "failed"


def content(call: ToolStarted, message: str, *, done: bool) -> Iterator[Content]:
    """The content; a change is read from the input, since the result is text for the model."""
    old, new = call.input.get("old_string"), call.input.get("new_string", call.input.get("content"))
    if done and call.tool in tools.WRITES and call.paths and isinstance(new, str):
        yield Diff(call.paths[0], old=old if isinstance(old, str) else None, new=new)
    elif message:
        yield Text(message)


def steps(input: Table) -> Iterator[PlanStep]:
    for todo in tables(input, "todos"):
        yield PlanStep(text(todo, "content"), _STEPS.get(text(todo, "status"), "pending"))
