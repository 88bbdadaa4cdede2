"""A scripted model on loopback: Anthropic, OpenAI and Gemini APIs."""
