"""Gemini CLI behind bridle's port: over ACP, or by its stream of JSON lines for each turn."""

from bridle.agents.gemini.agent import GeminiCli

agent = GeminiCli()

__all__ = ["agent"]
