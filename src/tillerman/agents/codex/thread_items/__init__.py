"""Items of a Codex thread: commands, file changes, to-do lists, subagents and tool results."""
