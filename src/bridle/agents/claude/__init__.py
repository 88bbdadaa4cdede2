"""Claude Code behind bridle's port."""

from bridle.agents.claude.management import ClaudeCode

agent = ClaudeCode()

__all__ = ["agent"]
