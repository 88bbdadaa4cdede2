"""Maps Claude Code's tool calls and results to the common vocabulary: text, diffs and images."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any, Literal

from msgspec import Struct, field

from tillerman.agents.claude.tool_names import NAMES
from tillerman.agents.decoding.fields import Table, count, storable, strings, table, tables, text
from tillerman.agents.decoding.images import Picture, picture
from tillerman.core import tools
from tillerman.core.events import Content, Cut, Diff, Text, ToolStarted
from tillerman.core.wire import AttachmentBytes

Outcome = Literal["completed", "failed", "denied", "cancelled"]

_CANCELLED = (
    "The user doesn't want to proceed with this tool use.",
    "The user doesn't want to take this action right now.",
    "[Request interrupted by user",
)
# Versions before 2.1.3xx report these in text only; later ones in `tool_result_meta`.
_DENIED = (
    "but you haven't granted it yet.",
    " has been denied.",
    "Tool permission request failed",
    " was blocked. For security, ",
    " while in plan mode.",
    "hook error: ",
)


def vocabulary(name: str) -> str:
    return "MCP" if name.startswith("mcp__") else NAMES.get(name, name)


class ClaudeToolCall(Struct, frozen=True):
    """A call that has started and not ended."""

    call_id: str
    name: str
    input: Table
    parent: str | None = None

    @property
    def tool(self) -> str:
        return vocabulary(self.name)

    @property
    def lists_tasks(self) -> bool:
        """Whether the call looks like a write to the agent's plan file."""
        file = PurePath(text(self.input, "file_path"))
        return (
            self.name in ("Write", "Edit") and file.parent.name == "plans" and file.suffix == ".md"
        )

    def title(self, cwd: str) -> str:
        return tools.title(self.tool, self.input, name=_shown(self.name), cwd=cwd)

    def started(self, cwd: str) -> ToolStarted:
        return ToolStarted(
            call_id=self.call_id,
            tool=self.tool,
            name=self.name,
            title=self.title(cwd),
            input=self.input,
            paths=tools.paths_of(self.input),
            parent=self.parent,
        )


def call_of(block: Table, parent: str | None) -> ClaudeToolCall:
    return ClaudeToolCall(
        text(block, "id"), text(block, "name"), storable(table(block, "input")), parent
    )


class ClaudeToolResult(Struct, frozen=True):
    """A `tool_result` with the additional fields of its line."""

    call_id: str
    block: Table
    details: Any = None  # the line's `tool_use_result`, whose shape depends on the tool
    meta: Table = field(default_factory=dict)

    def outcome(self, denied: bool) -> Outcome:
        if self.block.get("is_error") is not True:
            return "completed"
        if denied or text(table(self.meta, "permission_decision"), "decision") == "reject":
            return "denied"
        message = "".join(part.text for part in self._plain_content() if isinstance(part, Text))
        if message.startswith(_CANCELLED) or self.details == "User rejected tool use":
            return "cancelled"
        return "denied" if any(phrase in message for phrase in _DENIED) else "failed"

    def content(self, call: ClaudeToolCall | None) -> tuple[Content, ...]:
        if self.block.get("is_error") is True:
            return tuple(self._plain_content())
        details = self.details if isinstance(self.details, dict) else {}
        return tuple(_from_details(details, call) or self._plain_content())

    def pictures(self) -> Iterator[AttachmentBytes]:
        for block in tables(self.block, "content"):
            if text(block, "type") == "image" and (found := _picture(block)):
                yield found.keep

    def _plain_content(self) -> Iterator[Content]:
        reported = self.block.get("content")
        if isinstance(reported, str):
            if reported:
                yield Text(reported)
        else:
            for block in tables(self.block, "content"):
                yield _block(block)


def results(line: Table) -> Iterator[ClaudeToolResult]:
    metas = {text(meta, "id"): meta for meta in tables(line, "tool_result_meta")}
    for block in tables(table(line, "message"), "content"):
        if text(block, "type") == "tool_result" and (call_id := text(block, "tool_use_id")):
            yield ClaudeToolResult(
                call_id, block, line.get("tool_use_result"), metas.get(call_id, {})
            )


def _shown(name: str) -> str:
    """Formats `mcp__server__tool` for users."""
    _, server, tool = name.split("__", 2) if name.count("__") >= 2 else ("", "", name)
    return f"{server}.{tool}" if server else tool


def _from_details(details: Table, call: ClaudeToolCall | None) -> list[Content]:
    """Content from the structured details, which are better than the text for the model."""
    if call and call.tool in tools.WRITES:
        return [_diff(details, call)]
    if text(details, "status") == "async_launched":
        return [Text("Works in the background.")]
    if call and call.tool == "Task" and text(details, "status") == "completed":
        parts = tables(details, "content")
        notes, tail = count(details, "harnessNoteCount"), count(details, "harnessTailCount")
        return [_block(part) for part in parts[notes : len(parts) - tail]]
    if path := text(details, "persistedOutputPath"):
        output = text(details, "stdout")
        left_out = max(0, count(details, "persistedOutputSize") - len(output.encode()))
        return [Text(output, Cut(left_out)), Text(f"The whole output is in {path}")]
    return []


def _diff(details: Table, call: ClaudeToolCall) -> Diff:
    path = text(details, "filePath") or next(iter(tools.paths_of(call.input)), "")
    hunks = [_hunk(hunk) for hunk in tables(details, "structuredPatch")]
    if hunks:
        return Diff(path, patch="".join(hunks))
    # A subagent's result has no details, and a new file has no patch.
    old = call.input.get("old_string")
    new = call.input.get("new_string", call.input.get("content", call.input.get("new_source")))
    return Diff(
        path,
        old=old if isinstance(old, str) else None,
        new=new if isinstance(new, str) else None,
    )


def _hunk(hunk: Table) -> str:
    old, new = count(hunk, "oldStart"), count(hunk, "newStart")
    head = f"@@ -{old},{count(hunk, 'oldLines')} +{new},{count(hunk, 'newLines')} @@\n"
    return head + "".join(f"{line}\n" for line in strings(hunk, "lines"))


def _block(block: Table) -> Content:
    match text(block, "type"):
        case "text":
            return Text(text(block, "text"))
        case "image":
            found = _picture(block)
            return found.image if found else Text("(an image that cannot be decoded)")
        case "tool_reference":
            return Text(text(block, "tool_name"))
    return Text(json.dumps(storable(block), ensure_ascii=False))


def _picture(block: Table) -> Picture | None:
    source = table(block, "source")
    return picture(text(source, "media_type"), text(source, "data"))
