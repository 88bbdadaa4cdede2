"""Agent driver for Qwen Code: over ACP, or by its bidirectional JSON-lines stream."""
