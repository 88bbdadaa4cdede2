"""Decodes the token usage of a turn from the statistics of Gemini CLI's stream."""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, count
from tillerman.agents.decoding.token_meter import TokenCounts
from tillerman.core.events import UsageReported


def reported(stats: Table) -> UsageReported:
    """Thought tokens are only in the total."""
    asked, cached = count(stats, "input_tokens"), count(stats, "cached")
    return TokenCounts(
        input=max(0, asked - cached),
        output=max(count(stats, "output_tokens"), count(stats, "total_tokens") - asked),
        cached=cached,
    ).reported()
