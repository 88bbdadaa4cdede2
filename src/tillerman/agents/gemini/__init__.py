"""Agent driver for Gemini CLI: over ACP, or by its JSON-lines stream with one process per turn."""
