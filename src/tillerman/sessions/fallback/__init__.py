"""Fallback after an agent fails: retry, switch to the next agent, hand over the history."""
