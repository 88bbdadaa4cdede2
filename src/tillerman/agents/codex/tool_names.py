"""Maps the tool names of Codex to the common vocabulary."""

NAMES = {
    "Bash": "Bash",
    "apply_patch": "Edit",
    "spawn_agent": "Task",
}
