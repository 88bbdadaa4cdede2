"""Counts the tokens and cost of each turn, from model calls or from totals that keep growing.

Vendors count in different ways; each usage.py decodes its own counters into `TokenCounts`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from tillerman.core.events import UsageReported


class TokenCounts(NamedTuple):
    input: int = 0  # excludes tokens read from a cache
    output: int = 0
    cached: int = 0
    cost: float | None = None

    def plus(self, other: TokenCounts) -> TokenCounts:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return TokenCounts(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            round(sum(costs), 9) if costs else None,
        )

    def minus(self, other: TokenCounts) -> TokenCounts:
        cost = None if self.cost is None else round(self.cost - (other.cost or 0), 9)
        return TokenCounts(
            max(0, self.input - other.input),
            max(0, self.output - other.output),
            max(0, self.cached - other.cached),
            cost if cost is None or cost >= 0 else self.cost,
        )

    def since(self, earlier: TokenCounts) -> TokenCounts:
        """Subtracts an earlier total; a total that decreased has been reset."""
        read, read_earlier = self.input + self.cached, earlier.input + earlier.cached
        if read < read_earlier or self.output < earlier.output:
            return self
        return self.minus(earlier)

    def reported(
        self,
        context: int | None = None,
        window: int | None = None,
        call: Literal["begun", "done"] | None = None,
    ) -> UsageReported:
        return UsageReported(
            input_tokens=self.input,
            output_tokens=self.output,
            cached_tokens=self.cached,
            cost_usd=self.cost,
            context_used=context,
            context_limit=window,
            call=call,
        )


NOTHING = TokenCounts()


class TokenMeter:
    """The counters of one conversation; a vendor's meter adds methods that decode its messages."""

    def __init__(self) -> None:
        self.context: int | None = None  # tokens that the last model call read
        self.window: int | None = None  # tokens that it may read
        self._turn = TokenCounts()
        self._totals: dict[str, TokenCounts] = {}

    def add(self, counts: TokenCounts) -> None:
        self._turn = self._turn.plus(counts)

    def take(self) -> TokenCounts:
        """What was added since the last call of this method."""
        counts, self._turn = self._turn, TokenCounts()
        return counts

    def since_total(
        self, total: TokenCounts, source: str = "", first: TokenCounts = NOTHING
    ) -> TokenCounts:
        """What came since the last total of this source; `first` is the one before all others."""
        before = self._totals.get(source, first)
        self._totals[source] = total
        return total.since(before)

    def report(self) -> UsageReported:
        """The usage added since the last report."""
        return self.reported(self.take())

    def reported(
        self, counts: TokenCounts, call: Literal["begun", "done"] | None = None
    ) -> UsageReported:
        return counts.reported(self.context, self.window, call)
