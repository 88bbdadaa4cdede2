"""Claude Code behind tillerman's port."""

from tillerman.agents.claude.agent import ClaudeCode

agent = ClaudeCode()

__all__ = ["agent"]
