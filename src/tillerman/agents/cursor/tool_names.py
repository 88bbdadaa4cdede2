"""Maps the tool names of Cursor to the common vocabulary."""

NAMES = {
    "Shell": "Bash",
    "Read": "Read",
    "Write": "Write",
    "Grep": "Grep",
    "Delete": "Delete",
    "Task": "Task",
}
