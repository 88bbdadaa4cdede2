"""Git without side effects: snapshots, worktrees, repository state."""
