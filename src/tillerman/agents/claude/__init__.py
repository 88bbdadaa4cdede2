"""Agent driver for Claude Code."""

from tillerman.agents.claude.agent import ClaudeCode

agent = ClaudeCode()

__all__ = ["agent"]
