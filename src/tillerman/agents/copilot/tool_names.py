"""Copilot's tool names in the common vocabulary, and cleanup of its command output."""

from __future__ import annotations

import re

NAMES = {
    "bash": "Bash",
    "write_bash": "Bash",
    "view": "Read",
    "create": "Write",
    "edit": "Edit",
    "apply_patch": "Edit",
    "grep": "Grep",
    "rg": "Grep",
    "glob": "Glob",
    "web_fetch": "WebFetch",
    "web_search": "WebSearch",
    "update_todo": "TodoWrite",
    "task": "Task",
    "ask_user": "Question",
    "exit_plan_mode": "ExitPlanMode",
    "store_memory": "SaveMemory",
}
_EXITED = re.compile(r"<shellId: \S+ completed with exit code -?\d+>\s*$")


def without_exit(output: str) -> str:
    """Removes the exit code from the end of a command's output; it is reported separately too."""
    return _EXITED.sub("", output)
