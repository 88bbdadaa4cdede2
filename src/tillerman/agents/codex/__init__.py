"""Agent driver for Codex: its app-server, and `codex exec` for versions without one."""
