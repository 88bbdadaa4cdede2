"""Maps native tool names of each CLI to the common vocabulary."""

CLAUDE = {
    "Agent": "Task",
    "AskUserQuestion": "Question",
    "TaskCreate": "TodoWrite",
    "TaskUpdate": "TodoWrite",
}

CURSOR = {
    "Shell": "Bash",
    "Read": "Read",
    "Write": "Write",
    "Grep": "Grep",
    "Delete": "Delete",
    "Task": "Task",
}

GEMINI = {
    "run_shell_command": "Bash",
    "read_file": "Read",
    "read_many_files": "Read",
    "write_file": "Write",
    "replace": "Edit",
    "glob": "Glob",
    "grep_search": "Grep",
    "search_file_content": "Grep",
    "list_directory": "LS",
    "web_fetch": "WebFetch",
    "google_web_search": "WebSearch",
    "write_todos": "TodoWrite",
    "save_memory": "SaveMemory",
    "ask_user": "Question",
    "enter_plan_mode": "EnterPlanMode",
    "exit_plan_mode": "ExitPlanMode",
}

QWEN = {
    **GEMINI,
    "edit": "Edit",
    "web_search": "WebSearch",
    "todo_write": "TodoWrite",
    "agent": "Task",
    "task": "Task",
    "ask_user_question": "Question",
}

CODEX = {
    "Bash": "Bash",
    "apply_patch": "Edit",
    "spawn_agent": "Task",
}

COPILOT = {
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

OPENCODE = {
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
