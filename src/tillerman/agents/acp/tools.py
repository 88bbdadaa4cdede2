"""Maps native tool names and inputs of ACP agents to the common vocabulary."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.agents.acp.tool_kinds import TOOL_OF_KIND
from tillerman.agents.decoding.fields import Table, at, strings, table, tables, text
from tillerman.core import tools
from tillerman.core.events import PlanStep

UNNAMED = "mcp_tool"  # a tool of an unknown MCP server
_STATUS: dict[str, Literal["pending", "in_progress", "completed"]] = {
    "in_progress": "in_progress",
    "completed": "completed",
}
_COMMAND_KEYS = ("command", "cmd")
# Tool names that more than one agent uses.
_NAMES = {
    "agent": "Task",
    "apply_patch": "Edit",
    "ask_user_question": "Question",
    "askuserquestion": "Question",
    "bash": "Bash",
    "edit": "Edit",
    "edit_file": "Edit",
    "exec_command": "Bash",
    "exit_plan_mode": "ExitPlanMode",
    "exitplanmode": "ExitPlanMode",
    "fetch": "WebFetch",
    "glob": "Glob",
    "google_web_search": "WebSearch",
    "grep": "Grep",
    "grep_search": "Grep",
    "list": "LS",
    "list_directory": "LS",
    "ls": "LS",
    "multiedit": "MultiEdit",
    "notebookedit": "NotebookEdit",
    "question": "Question",
    "read": "Read",
    "read_file": "Read",
    "read_many_files": "Read",
    "replace": "Edit",
    "run_shell_command": "Bash",
    "save_memory": "SaveMemory",
    "search_file_content": "Grep",
    "shell": "Bash",
    "task": "Task",
    "todo_write": "TodoWrite",
    "todowrite": "TodoWrite",
    "update_plan": "TodoWrite",
    "view": "Read",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "write": "Write",
    "write_file": "Write",
}


def full_name(name: str, input: Table, servers: Collection[str]) -> str:
    """The native name; a tool of an MCP server is `mcp__SERVER__TOOL` in all notations."""
    if (server := text(input, "server")) and (tool := text(input, "tool")):
        return f"mcp__{server}__{tool}"
    for server in servers:
        if (tool := name.removeprefix(f"{server}_")) != name:
            return f"mcp__{server}__{tool}"
    return name


def server_tool(title: str, servers: Collection[str]) -> str:
    """Decodes a title of the form `SERVER-TOOL`; the kind only hints at what such a tool does."""
    for server in servers:
        if (tool := title.removeprefix(f"{server}-")) != title and tool.isidentifier():
            return f"mcp__{server}__{tool}"
    return ""


def vocabulary(name: str, kind: str, input: Table, row: AcpAgentRow) -> str:
    if known := row.tools.get(name):
        return known
    if name.startswith("mcp_"):
        return "MCP"
    if known := name if name in tools.TOOLS else _NAMES.get(name.lower()):
        return known
    if _command(input) and not name:
        return "Bash"  # regardless of the kind
    return TOOL_OF_KIND.get(kind) or name or "other"


def makes_a_file(call: Table) -> bool:
    """Whether the diff of the call creates a new file."""
    return (diff := _diff(call)) is not None and not text(diff, "oldText")


def shown(name: str) -> str:
    """Formats `mcp__server__tool` for users; "" for a tool without a known name."""
    if name == UNNAMED:
        return ""
    parts = name.split("__", 2)
    return f"{parts[1]}.{parts[2]}" if len(parts) == 3 and parts[0] == "mcp" else name


def plan(input: Table) -> tuple[PlanStep, ...]:
    """The steps in the input of a todo-list tool; () for any other tool."""
    return tuple(
        PlanStep(text(one, "content") or text(one, "step"), step_status(text(one, "status")))
        for one in tables(input, "todos")
    )


def step_status(word: str) -> Literal["pending", "in_progress", "completed"]:
    return _STATUS.get(word, "pending")


def arguments(tool: str, call: Table, given: Table) -> Table:
    """Normalizes a call's input to the keys used by rules, titles and previews.

    An agent may send no input, and put the command in the title and the new text in a diff. The
    title never replaces a command that is present but cannot be decoded, since the model chooses
    the title.
    """
    input = dict(given)
    paths = locations(call)
    if tool == "Bash":
        given_one = any(given.get(key) for key in _COMMAND_KEYS)
        input["command"] = _command(given) or (
            given.get("command", "") if given_one else text(call, "title")
        )
    elif tool in tools.WRITES | {"Read"} and paths and not tools.paths_of(input):
        input["file_path"] = paths[0]
    diff = _diff(call)
    if diff and tool in tools.WRITES and not given:
        old, new = text(diff, "oldText"), text(diff, "newText")
        input |= {"content": new} if tool == "Write" else {"old_string": old, "new_string": new}
    return input


def _diff(call: Table) -> Table | None:
    """The first diff in the call's content."""
    return next((one for one in tables(call, "content") if text(one, "type") == "diff"), None)


def _command(given: Table) -> str:
    """The command without its shell: `["/bin/bash", "-lc", "ls"]` is `ls`."""
    for key in _COMMAND_KEYS:
        words, value = strings(given, key), given.get(key)
        if isinstance(value, list) and len(words) < len(value):
            return ""
        if len(words) == 3 and words[1] in ("-lc", "-c"):
            return words[2]
        if found := " ".join(words) or text(given, key):
            return found
    return ""


def locations(call: Table) -> tuple[str, ...]:
    """The files that a call names outside its input, in its locations and diffs."""
    found = [at(one, "path") for key in ("locations", "content") for one in _list(call, key)]
    found += table(table(call, "rawInput"), "changes")
    return tuple(dict.fromkeys(path for path in found if isinstance(path, str) and path))


def _list(call: Table, key: str) -> list[object]:
    value = call.get(key)
    return value if isinstance(value, list) else []
