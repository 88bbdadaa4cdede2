"""Maps the tool names of Claude Code to the common vocabulary."""

NAMES = {
    "Agent": "Task",
    "AskUserQuestion": "Question",
    "TaskCreate": "TodoWrite",
    "TaskUpdate": "TodoWrite",
}
