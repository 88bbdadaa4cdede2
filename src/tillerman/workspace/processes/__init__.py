"""Shell commands of a workspace: start, read, write, kill, and reattach after a restart."""
