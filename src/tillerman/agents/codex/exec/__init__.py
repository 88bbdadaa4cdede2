"""`codex exec`, for versions without an app-server: one process per turn."""
