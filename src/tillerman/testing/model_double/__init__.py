"""Scripted model server on loopback: Anthropic, OpenAI and Gemini APIs."""
