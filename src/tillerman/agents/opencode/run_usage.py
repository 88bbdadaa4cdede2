"""Sums the token usage and cost of a turn from OpenCode's individual model calls."""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, count, number, table
from tillerman.agents.decoding.token_meter import TokenCounts, TokenMeter


class OpenCodeUsage(TokenMeter):
    """`input` of a call excludes cached tokens; reasoning is counted separately from `output`."""

    def step(self, part: Table) -> None:
        """Counts a `step-finish`: tokens and cost, which is 0 for a model without prices."""
        tokens = table(part, "tokens")
        cache = table(tokens, "cache")
        used = TokenCounts(
            input=count(tokens, "input") + count(cache, "write"),
            output=count(tokens, "output") + count(tokens, "reasoning"),
            cached=count(cache, "read"),
            cost=number(part, "cost") or None,
        )
        self.add(used)
        self.context = used.input + used.cached or self.context
