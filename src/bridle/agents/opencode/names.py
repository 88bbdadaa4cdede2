"""What OpenCode calls the tools of our vocabulary."""

NAMES = {
    "bash": "Bash",
    "read": "Read",
    "write": "Write",
    "edit": "Edit",
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
