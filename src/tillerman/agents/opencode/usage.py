"""Sums the token usage and cost of a turn from OpenCode's individual model calls."""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, count, number, table
from tillerman.core.events import UsageReported


class OpenCodeUsage:
    """`input` of a call excludes cached tokens; reasoning is counted separately from `output`."""

    def __init__(self) -> None:
        self._context: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._input = self._output = self._cached = 0
        self._cost: float | None = None

    def step(self, part: Table) -> None:
        """Counts a `step-finish`: tokens and cost, which is 0 for a model without prices."""
        tokens = table(part, "tokens")
        cache = table(tokens, "cache")
        new, cached = count(tokens, "input") + count(cache, "write"), count(cache, "read")
        self._input += new
        self._output += count(tokens, "output") + count(tokens, "reasoning")
        self._cached += cached
        self._context = new + cached or self._context
        if cost := number(part, "cost"):
            self._cost = round((self._cost or 0.0) + cost, 9)

    def report(self) -> UsageReported:
        """The usage counted since the last report."""
        used = UsageReported(
            input_tokens=self._input,
            output_tokens=self._output,
            cached_tokens=self._cached,
            cost_usd=self._cost,
            context_used=self._context,
        )
        self._begin()
        return used
