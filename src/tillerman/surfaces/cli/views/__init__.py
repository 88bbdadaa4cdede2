"""Output of commands: live screen, plain text, JSON lines, tables."""
