"""The folder an agent works in: what a turn changed there, and worktrees of its own."""
