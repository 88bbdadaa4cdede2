"""Decodes the token usage of a turn from the CLI's result."""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, count
from tillerman.agents.decoding.token_meter import TokenCounts
from tillerman.core.events import UsageReported


def reported(usage: Table) -> UsageReported:
    return TokenCounts(
        input=count(usage, "inputTokens") + count(usage, "cacheWriteTokens"),
        output=count(usage, "outputTokens"),
        cached=count(usage, "cacheReadTokens"),
    ).reported()
