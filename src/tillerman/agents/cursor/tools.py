"""Maps Cursor's tool calls to the common vocabulary: tool, input, files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from tillerman.agents.decoding.fields import Table, parse, storable, table, text
from tillerman.core import tools
from tillerman.core.events import ToolStarted

_SUFFIX = "ToolCall"
_TOOLS: Mapping[str, str] = {
    "read": "Read",
    "edit": "Edit",
    "write": "Write",
    "applyAgentDiff": "Edit",
    "delete": "Delete",
    "shell": "Bash",
    "writeShellStdin": "Bash",
    "grep": "Grep",
    "glob": "Glob",
    "ls": "LS",
    "semSearch": "SemSearch",
    "updateTodos": "TodoWrite",
    "todo": "TodoWrite",
    "readTodos": "TodoWrite",
    "task": "Task",
    "mcp": "MCP",
    "webFetch": "WebFetch",
    "fetch": "WebFetch",
    "webSearch": "WebSearch",
    "createPlan": "ExitPlanMode",
    "askQuestion": "Question",
    "switchMode": "Question",
    "readLints": "Read",
    "blameByFilePath": "Read",
    "getMcpTools": "LS",
    "listMcpResources": "LS",
}
_OUR_WORDS: Mapping[str, Mapping[str, str]] = {
    "glob": {"globPattern": "pattern", "targetDirectory": "path"},
    "ls": {"targetDirectory": "path"},
    "webSearch": {"searchTerm": "query"},
}
# Internal arguments of the CLI, which are not input of the tool.
_BOOKKEEPING = frozenset({
    "toolCallId", "simpleCommands", "hasInputRedirect", "hasOutputRedirect", "parsingResult",
    "requestedSandboxPolicy", "fileOutputThresholdBytes", "skipApproval", "smartModeApprovalOnly",
    "timeoutBehavior", "hardTimeout", "attachments", "respondingToMessageIds",
})  # fmt: skip


class CursorToolCall(Struct, frozen=True):
    """A started call; `kind` is the CLI's key for it without `ToolCall`."""

    call_id: str
    kind: str
    name: str
    input: Table

    @property
    def tool(self) -> str:
        return _TOOLS.get(self.kind, self.name)

    @property
    def path(self) -> str:
        return next(iter(tools.paths_of(self.input)), "")

    def started(self, cwd: str) -> ToolStarted:
        return ToolStarted(
            call_id=self.call_id,
            tool=self.tool,
            name=self.name,
            title=tools.title(self.tool, self.input, name=self.name, cwd=cwd),
            input=self.input,
            paths=tools.paths_of(self.input),
        )


def call_of(line: Table) -> tuple[CursorToolCall, Table] | None:
    """The call, and the members next to its arguments; None if the line names no tool."""
    calls = table(line, "tool_call")
    call_id = call_id_of(line)
    if function := table(calls, "function"):
        name = text(function, "name") or "function"
        given = parse(text(function, "arguments").encode("utf-8", "replace"))
        input = given if isinstance(given, dict) else {}
        return CursorToolCall(call_id, "function", name, storable(input)), function
    for key, value in calls.items():
        if key.endswith(_SUFFIX) and isinstance(value, dict):
            kind = key.removesuffix(_SUFFIX)
            args = table(value, "args")
            return CursorToolCall(call_id, kind, _name(kind, args), _input(kind, args)), value
    return None


def call_id_of(line: Table) -> str:
    """Replaces the newline in the id, which must be printable."""
    return text(line, "call_id").replace("\n", "/")


def _name(kind: str, args: Table) -> str:
    if kind != "mcp":
        return kind
    server = text(args, "serverIdentifier") or text(args, "providerIdentifier")
    tool = text(args, "toolName")
    return f"{server}.{tool}" if server and tool else text(args, "name") or kind


def _input(kind: str, args: Table) -> Table:
    if kind == "mcp":
        return dict(storable(table(args, "args")))
    words = _OUR_WORDS.get(kind, {})
    plain: dict[str, Any] = {
        words.get(key, key): value for key, value in args.items() if key not in _BOOKKEEPING
    }
    return dict(storable(plain))
