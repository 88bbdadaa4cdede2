"""Agent driver for Claude Code."""
