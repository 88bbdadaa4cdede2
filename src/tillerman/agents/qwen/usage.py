"""Computes the token usage of each turn of Qwen Code's stream from totals.

A result counts the whole process including its side requests, and after a resume the earlier
processes too: the last total is subtracted, and if there is none yet the turn's own calls count.
"""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, count
from tillerman.agents.decoding.token_meter import TokenCounts, TokenMeter
from tillerman.core.events import UsageReported


class QwenUsage(TokenMeter):
    def __init__(self, *, resumed: bool) -> None:
        super().__init__()
        self._resumed = resumed

    def call(self, usage: Table) -> None:
        """Counts a model response; of one in several parts only the last has numbers."""
        self.add(_counts(usage))
        self.context = count(usage, "input_tokens") or self.context

    def result(self, usage: Table) -> UsageReported:
        total, calls = _counts(usage), self.take()
        first = total.minus(calls) if self._resumed else TokenCounts()
        return self.reported(self.since_total(total, first=first))


def _counts(usage: Table) -> TokenCounts:
    cached = count(usage, "cache_read_input_tokens")
    given = count(usage, "input_tokens")
    return TokenCounts(max(0, given - cached), count(usage, "output_tokens"), cached)
