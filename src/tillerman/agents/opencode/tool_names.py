"""Maps the tool names of OpenCode to the common vocabulary."""

NAMES = {
    "bash": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
    "apply_patch": "Edit",
    "patch": "Edit",
    "multiedit": "MultiEdit",
    "list": "LS",
    "glob": "Glob",
    "grep": "Grep",
    "codesearch": "SemSearch",
    "webfetch": "WebFetch",
    "websearch": "WebSearch",
    "todowrite": "TodoWrite",
    "task": "Task",
    "question": "Question",
    "plan_exit": "ExitPlanMode",
}
