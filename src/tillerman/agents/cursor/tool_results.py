"""Decodes the outcome and content of Cursor's tool calls: text and diffs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal, NamedTuple

from tillerman.agents.cursor.tools import CursorToolCall
from tillerman.agents.decoding.fields import Table, count, storable, strings, table, tables, text
from tillerman.core.events import Content, Diff, PlanChanged, PlanStep, Text

Outcome = Literal["completed", "failed", "denied", "cancelled"]
Status = Literal["pending", "in_progress", "completed"]

_OUTCOMES: dict[str, Outcome] = {
    "success": "completed",
    "failure": "failed",
    "error": "failed",
    "rejected": "denied",
    "permissionDenied": "denied",
}
_STATUSES: dict[str, Status] = {
    "TODO_STATUS_IN_PROGRESS": "in_progress",
    "TODO_STATUS_COMPLETED": "completed",
    "TODO_STATUS_CANCELLED": "completed",
}
_FOR_THE_MODEL = "\n\nAgent note: "  # the CLI adds it to a hook's reason


class CursorToolResult(NamedTuple):
    outcome: Outcome
    content: tuple[Content, ...]


def result_of(call: CursorToolCall, beside: Table) -> CursorToolResult:
    """Decodes the result; `beside`: the members next to the call's arguments."""
    fields = table(beside, "result")
    for key, outcome in _OUTCOMES.items():
        if isinstance(fields.get(key), dict):
            body = table(fields, key)
            if outcome != "completed":
                return CursorToolResult(outcome, tuple(_refusal(body)))
            failed = body.get("isError") is True  # reported by an MCP server
            return CursorToolResult(
                "failed" if failed else outcome, tuple(_content(call, body, fields))
            )
    if not fields:
        return CursorToolResult("completed", ())
    return CursorToolResult("failed", (_as_json(fields),))


def plan_of(call: CursorToolCall, beside: Table) -> PlanChanged | None:
    """The list after a call that changed it. A merge has only the changes, its result the list."""
    todos = tables(table(table(beside, "result"), "success"), "todos")
    if call.tool == "ExitPlanMode":
        todos = tables(call.input, "todos")
    if not todos or call.tool not in ("TodoWrite", "ExitPlanMode"):
        return None
    steps = (
        PlanStep(text(todo, "content"), _STATUSES.get(text(todo, "status"), "pending"))
        for todo in todos
    )
    return PlanChanged(steps=tuple(steps))


def _refusal(body: Table) -> Iterator[Content]:
    if output := _output(body):
        yield Text(output)
    if why := _why(body):
        yield Text(why)


def _why(body: Table) -> str:
    reported = next(
        (text(body, key) for key in ("reason", "errorMessage", "error") if body.get(key)), ""
    )
    if reported:
        return reported.partition(_FOR_THE_MODEL)[0]
    if body.get("aborted") is True:
        return f"aborted ({text(body, 'signal') or 'no signal'})"
    return f"exit code {count(body, 'exitCode')}" if "exitCode" in body else ""


def _output(body: Table) -> str:
    return text(body, "interleavedOutput") or text(body, "stdout") + text(body, "stderr")


def _content(call: CursorToolCall, body: Table, fields: Table) -> Iterator[Content]:
    match call.kind:
        case "read":
            yield Text(text(body, "content"))
        case "edit" | "write" | "applyAgentDiff":
            yield _diff(call, body)
        case "delete":
            yield Diff(text(body, "path") or call.path, old=text(body, "prevContent"))
        case "shell":
            background = fields.get("isBackground") is True
            if output := _output(body) or ("Works in the background." if background else ""):
                yield Text(output)
        case "grep":
            yield Text("\n".join(_matches(table(body, "workspaceResults"))))
        case "glob":
            yield Text("\n".join(strings(body, "files")))
        case "ls":
            yield Text("\n".join(_tree(table(body, "directoryTreeRoot"))))
        case "mcp":
            yield from _mcp(body)
        case "task":
            steps = tables(body, "conversationSteps")
            messages = (text(table(step, "assistantMessage"), "text") for step in steps)
            yield Text("\n".join(filter(None, messages)))
        case "webFetch":
            yield Text(text(body, "markdown"))
        case "webSearch":
            yield Text("\n\n".join(map(_reference, tables(body, "references"))))
        case "createPlan":
            yield Text(text(call.input, "plan"))
        case "updateTodos" | "todo" | "readTodos":
            return
        case _:
            if body:
                yield _as_json(body)


def _diff(call: CursorToolCall, body: Table) -> Diff:
    path = text(body, "path") or call.path
    if hunks := _hunks(text(body, "diffString")):
        return Diff(path, patch=hunks)
    new = text(body, "afterFullFileContent") or text(call.input, "fileText")
    old = body.get("beforeFullFileContent")
    return Diff(path, old=old if isinstance(old, str) else None, new=new)


def _hunks(patch: str) -> str:
    """Removes the file names above the hunks, which are wrong (`a//proj/x`)."""
    at = 0 if patch.startswith("@@") else patch.find("\n@@") + 1
    return patch[at:].rstrip("\n") + "\n" if patch.startswith("@@", at) else ""


def _matches(results: Table) -> Iterator[str]:
    for root in results:
        for file in tables(table(table(results, root), "content"), "matches"):
            name = text(file, "file").removeprefix("./")
            for match in tables(file, "matches"):
                yield f"{name}:{count(match, 'lineNumber')}:{text(match, 'content')}"


def _tree(root: Table, prefix: str = "") -> Iterator[str]:
    for folder in tables(root, "childrenDirs"):
        name = f"{prefix}{text(folder, 'absPath').rpartition('/')[2]}/"
        yield name
        yield from _tree(folder, name)
    for file in tables(root, "childrenFiles"):
        yield prefix + text(file, "name")


def _mcp(body: Table) -> Iterator[Content]:
    for part in tables(body, "content"):
        message = text(table(part, "text"), "text") or text(part, "text")
        yield Text(message) if message else _as_json(part)


def _reference(reference: Table) -> str:
    return "\n".join(filter(None, (text(reference, key) for key in ("title", "url", "chunk"))))


def _as_json(value: Table) -> Text:
    return Text(json.dumps(storable(value), ensure_ascii=False))
