"""Computes the token usage of each turn from the totals that Codex counts per thread.

A total continues from an earlier process. `inputTokens` includes tokens read from a cache;
`input_tokens` of a report does not.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from tillerman.agents.decoding.fields import Table, count, table
from tillerman.core.events import UsageReported


class Used(NamedTuple):
    input: int = 0
    output: int = 0
    cached: int = 0

    def plus(self, other: Used) -> Used:
        return Used(*(one + two for one, two in zip(self, other, strict=True)))

    def minus(self, other: Used) -> Used:
        """Subtracts an earlier total; a total that decreased has been reset."""
        if self.input + self.cached < other.input + other.cached or self.output < other.output:
            return self
        return Used(*(max(0, one - two) for one, two in zip(self, other, strict=True)))

    def report(self, context: int | None = None, window: int | None = None) -> UsageReported:
        return UsageReported(
            input_tokens=self.input,
            output_tokens=self.output,
            cached_tokens=self.cached,
            context_used=context,
            context_limit=window,
        )


def used(counts: Table) -> Used:
    """Decodes the counts of the app-server or, with other keys, of `exec`."""
    cached = count(counts, "cachedInputTokens") or count(counts, "cached_input_tokens")
    given = count(counts, "inputTokens") or count(counts, "input_tokens")
    output = count(counts, "outputTokens") or count(counts, "output_tokens")
    return Used(max(0, given - cached), output, cached)


class CodexUsage:
    """Usage of the main thread and those of its subagents."""

    def __init__(self) -> None:
        self._totals: dict[str, Used] = {}

    def update(self, thread: str, usage: Table, *, now: bool, main: bool) -> UsageReported | None:
        """The usage of a model call; None if it belongs to an earlier turn, not `now`.

        Only the `main` thread's context is reported.
        """
        total, last = used(table(usage, "total")), table(usage, "last")
        before = self._totals.get(thread, total.minus(used(last)))
        self._totals[thread] = total
        since = total.minus(before)
        if not now or since == Used():
            return None
        if not main:
            return since.report()
        context, window = count(last, "totalTokens"), count(usage, "modelContextWindow")
        return replace(since.report(context or None, window or None), call="done")
