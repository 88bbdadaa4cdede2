"""What each turn used, worked out from the totals that Codex counts over a whole thread.

A total goes on from where an earlier process left it. `inputTokens` include those read from a
cache; `input_tokens` of a report do not.
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
        """A total that went down began anew."""
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
    """Counts of the app-server or, in other letters, of `exec`."""
    cached = count(counts, "cachedInputTokens") or count(counts, "cached_input_tokens")
    given = count(counts, "inputTokens") or count(counts, "input_tokens")
    output = count(counts, "outputTokens") or count(counts, "output_tokens")
    return Used(max(0, given - cached), output, cached)


class CodexUsage:
    """Of the conversation's thread and of those of its subagents."""

    def __init__(self) -> None:
        self._totals: dict[str, Used] = {}

    def update(self, thread: str, usage: Table, *, now: bool, main: bool) -> UsageReported | None:
        """What a call of the model used; None if it was in an earlier turn, not `now`.

        Whose context is told is the `main` thread's.
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
