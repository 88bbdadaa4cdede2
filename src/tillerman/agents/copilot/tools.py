"""Maps Copilot's tool calls and results to the common vocabulary: text, diffs and images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from tillerman.agents.copilot.tool_names import NAMES, without_exit
from tillerman.agents.decoding.fields import Table, storable, table, tables, text
from tillerman.agents.decoding.images import Picture, picture
from tillerman.core import tools
from tillerman.core.events import Content, Diff, Text, ToolStarted
from tillerman.core.wire import AttachmentBytes

Outcome = Literal["completed", "failed", "denied", "cancelled"]


class CopilotToolCall(Struct, frozen=True):
    call_id: str
    name: str
    input: Table
    server: str = ""  # of an MCP tool
    parent: str | None = None

    @property
    def tool(self) -> str:
        return "MCP" if self.server else NAMES.get(self.name, self.name)

    @property
    def paths(self) -> tuple[str, ...]:
        return tools.paths_of(self.input)

    def started(self, cwd: str) -> ToolStarted:
        shown = f"{self.server}.{self.name.removeprefix(self.server + '-')}"
        input = {"edits": [{"file_path": path} for path in self.paths]}
        return ToolStarted(
            call_id=self.call_id,
            tool=self.tool,
            name=self.name,
            title=tools.title(
                self.tool,
                input if self.name == "apply_patch" else self.input,
                name=shown if self.server else self.name,
                cwd=cwd,
            ),
            input=self.input,
            paths=self.paths,
            parent=self.parent,
        )


def call_of(start: Table, parent: str | None) -> CopilotToolCall:
    """Decodes a `tool.execution_start`; a free-form tool gets text instead of named arguments."""
    arguments = storable(start.get("arguments"))
    input = {"patch": arguments} if isinstance(arguments, str) else arguments
    return CopilotToolCall(
        text(start, "toolCallId"),
        text(start, "toolName"),
        input if isinstance(input, dict) else {},
        text(start, "mcpServerName"),
        parent,
    )


def outcome(end: Table) -> Outcome:
    """The outcome; Copilot reports a failed command as success, so its exit code decides."""
    if end.get("success") is True:
        code = table(end, "shellExecution").get("exitCode")
        return "failed" if type(code) is int and code != 0 else "completed"
    match text(table(end, "error"), "code"):
        case "denied" | "rejected":
            return "denied"
        case "cancelled" | "aborted":
            return "cancelled"
    return "failed"


def content(call: CopilotToolCall | None, end: Table) -> tuple[Content, ...]:
    result = table(end, "result")
    message = text(result, "content") or text(table(end, "error"), "message")
    changed = tuple(_diffs(text(result, "detailedContent"), call)) if call else ()
    if changed:
        return changed
    if call and call.tool == "Bash":
        message = without_exit(message)
    shown = (Text(message),) if message else ()
    return (*shown, *(found.image for found in _pictures(result)))


def attachments(end: Table) -> Iterator[AttachmentBytes]:
    for found in _pictures(table(end, "result")):
        yield found.keep


def _diffs(detailed: str, call: CopilotToolCall) -> Iterator[Diff]:
    """Splits a diff at `diff --git` lines; only for writes, since reads are reported so too."""
    if call.tool not in tools.WRITES:
        return
    whole = [one for one in re.split(r"^diff --git .*\n", detailed, flags=re.M) if "@@" in one]
    paths = call.paths if len(call.paths) == len(whole) else ("",) * len(whole)
    for path, one in zip(paths, whole, strict=True):
        yield Diff(path, patch=one[one.index("@@") :])


def _pictures(result: Table) -> Iterator[Picture]:
    for part in tables(result, "contents"):
        if text(part, "type") == "image":
            found = picture(text(part, "mimeType"), text(part, "data"))
            if found:
                yield found
