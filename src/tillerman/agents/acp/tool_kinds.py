"""Kinds of tool calls in ACP and the tools of the common vocabulary, both ways."""

from __future__ import annotations

# The tool that a kind stands for, if the agent tells no name.
TOOL_OF_KIND = {
    "read": "Read",
    "edit": "Edit",
    "delete": "Delete",
    "move": "Rename",
    "search": "Grep",
    "execute": "Bash",
    "fetch": "WebFetch",
    "switch_mode": "ExitPlanMode",
}
KIND_OF_TOOL = {tool: kind for kind, tool in TOOL_OF_KIND.items()} | {
    "Write": "edit",
    "MultiEdit": "edit",
    "NotebookEdit": "edit",
    "LS": "search",
    "Glob": "search",
    "SemSearch": "search",
    "WebSearch": "fetch",
    "TodoWrite": "think",
    "Task": "think",
}


def kind_of(tool: str) -> str:
    return KIND_OF_TOOL.get(tool, "other")
