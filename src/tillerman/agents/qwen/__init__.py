"""Qwen Code behind tillerman's port: over ACP, or by its two-way stream of JSON lines."""

from tillerman.agents.qwen.agent import QwenCode

agent = QwenCode()

__all__ = ["agent"]
