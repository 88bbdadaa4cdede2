"""Computes the token usage of each turn from the totals that Codex counts per thread.

A total continues from an earlier process. `inputTokens` includes tokens read from a cache;
`input_tokens` of a report does not.
"""

from __future__ import annotations

from tillerman.agents.decoding.fields import Table, count, table
from tillerman.agents.decoding.token_meter import TokenCounts, TokenMeter
from tillerman.core.events import UsageReported


def used(counts: Table) -> TokenCounts:
    """Decodes the counts of the app-server or, with other keys, of `exec`."""
    cached = count(counts, "cachedInputTokens") or count(counts, "cached_input_tokens")
    given = count(counts, "inputTokens") or count(counts, "input_tokens")
    output = count(counts, "outputTokens") or count(counts, "output_tokens")
    return TokenCounts(max(0, given - cached), output, cached)


class CodexUsage(TokenMeter):
    """Usage of the main thread and those of its subagents."""

    def update(self, thread: str, usage: Table, *, now: bool, main: bool) -> UsageReported | None:
        """The usage of a model call; None if it belongs to an earlier turn, not `now`.

        Only the `main` thread's context is reported.
        """
        total, last = used(table(usage, "total")), table(usage, "last")
        since = self.since_total(total, thread, first=total.since(used(last)))
        if not now or since == TokenCounts():
            return None
        if not main:
            return since.reported()
        self.context = count(last, "totalTokens") or None
        self.window = count(usage, "modelContextWindow") or None
        return self.reported(since, call="done")
