"""Common tool names for all agents, tool classes, and one-line titles of calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from tillerman.core.patch_text import patched_files

TOOLS = (
    "Read", "Write", "Edit", "MultiEdit", "Delete", "Rename", "Bash", "LS", "Glob", "Grep",
    "SemSearch", "WebSearch", "WebFetch", "TodoWrite", "Task", "SaveMemory", "NotebookEdit",
    "ExitPlanMode", "Question", "MCP",
)  # fmt: skip

READS = frozenset({"Read", "LS", "Glob", "Grep", "SemSearch"})
WRITES = frozenset({"Write", "Edit", "MultiEdit", "Delete", "Rename", "NotebookEdit"})

# Classes that the policy decides separately, and that agents request approval for separately.
ToolClass = Literal["read", "write", "shell", "network", "mcp"]
_OF_THE_LOOP = frozenset({"TodoWrite", "Task", "ExitPlanMode", "Question"})
# Internal to an agent: its tools, its subagents, its goals.
_INWARD = frozenset({
    "ToolSearch", "ListAgents", "StructuredOutput", "TaskGet", "TaskList", "TaskOutput", "Skill",
    "Goal", "Topic",
})  # fmt: skip
_NETWORK = frozenset({"WebSearch", "WebFetch"})

_PATH_KEYS = ("file_path", "path", "notebook_path", "filePath", "absolute_path", "target_file")
_PATCH_KEYS = ("patch", "patchText", "patch_text", "input", "diff")
_QUERY_KEYS = ("pattern", "query", "q", "url", "prompt")
_VERBS = {
    "Grep": "Search",
    "SemSearch": "Search",
    "Glob": "Find",
    "LS": "List",
    "WebFetch": "Fetch",
    "WebSearch": "Search the web for",
    "TodoWrite": "Update the plan",
    "MultiEdit": "Edit",
    "NotebookEdit": "Edit",
    "ExitPlanMode": "Present the plan",
    "Question": "Ask",
}


def class_of(tool: str) -> ToolClass | None:
    """The class of a tool; None if it has no effect by itself. An unknown tool counts as MCP."""
    if tool in READS:
        return "read"
    if tool in WRITES or tool == "SaveMemory":
        return "write"
    if tool in _NETWORK:
        return "network"
    if tool == "Bash":
        return "shell"
    return None if tool in _OF_THE_LOOP | _INWARD else "mcp"


def paths_of(input: Mapping[str, Any]) -> tuple[str, ...]:
    """The file paths that a call names."""
    found = [input[key] for key in _PATH_KEYS if isinstance(input.get(key), str)]
    edits = input.get("edits")
    if isinstance(edits, list):
        found += [e["file_path"] for e in edits if isinstance(e, dict) and "file_path" in e]
    for key in _PATCH_KEYS:
        if isinstance(patch := input.get(key), str):
            found += [file.path for file in patched_files(patch)]
    return tuple(dict.fromkeys(str(path) for path in found if path))


def title(tool: str, input: Mapping[str, Any], *, name: str = "", cwd: str = "") -> str:
    """One line that describes the call for people."""
    paths = [shorten(_relative(path, cwd)) for path in paths_of(input)]
    verb = _VERBS.get(tool, tool)
    match tool:
        case "Bash":
            return f"Bash `{_one_line(_text(input, 'command', 'cmd'))}`"
        case "Grep" | "SemSearch" | "Glob":
            where = f" in `{paths[0]}`" if paths else ""
            return f"{verb} `{_one_line(_text(input, *_QUERY_KEYS))}`{where}"
        case "WebFetch" | "WebSearch":
            return f"{verb} `{_one_line(_text(input, 'url', 'query', 'q'))}`"
        case "Task":
            return f"Task `{_one_line(_text(input, 'description', 'prompt'))}`"
        case "MCP":
            return f"MCP `{name}`" if name else "MCP"
        case "Rename" if not paths and _text(input, "old_path") and _text(input, "new_path"):
            both = (_relative(_text(input, key), cwd) for key in ("old_path", "new_path"))
            return "Rename " + " to ".join(f"`{shorten(path)}`" for path in both)
        case "TodoWrite" | "ExitPlanMode" | "Question":
            return verb
    if paths:
        more = f" +{len(paths) - 3} more files" if len(paths) > 3 else ""
        return f"{verb} " + ", ".join(f"`{path}`" for path in paths[:3]) + more
    return verb if tool in TOOLS else (name or tool)


def shorten(path: str, limit: int = 48) -> str:
    """Shortens a long path in the middle, never at its end."""
    if len(path) <= limit:
        return path
    head, _, tail = path.rpartition("/")
    room = limit - len(tail) - 2
    if room < 4:
        return path[: limit // 2 - 1] + "…" + path[-(limit - limit // 2) :]
    return f"{head[:room]}…/{tail}"


def _relative(path: str, cwd: str) -> str:
    prefix = cwd.rstrip("/") + "/"
    return path[len(prefix) :] if cwd and path.startswith(prefix) else path


def _text(input: Mapping[str, Any], *keys: str) -> str:
    for key in keys:
        value = input.get(key)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, list) and value:
            return " ".join(str(part) for part in value)
    return ""


def _one_line(text: str, limit: int = 72) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
