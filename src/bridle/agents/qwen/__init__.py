"""Qwen Code behind bridle's port: over ACP, or by its two-way stream of JSON lines."""

from bridle.agents.qwen.agent import QwenCode

agent = QwenCode()

__all__ = ["agent"]
