"""Claude Code behind bridle's port."""

from bridle.agents.claude.agent import ClaudeCode

agent = ClaudeCode()

__all__ = ["agent"]
