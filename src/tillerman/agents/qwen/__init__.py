"""Agent driver for Qwen Code: over ACP, or by its bidirectional JSON-lines stream."""

from tillerman.agents.qwen.agent import QwenCode

agent = QwenCode()

__all__ = ["agent"]
