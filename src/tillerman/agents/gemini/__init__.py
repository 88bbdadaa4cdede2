"""Gemini CLI behind tillerman's port: over ACP, or by its stream of JSON lines for each turn."""

from tillerman.agents.gemini.agent import GeminiCli

agent = GeminiCli()

__all__ = ["agent"]
