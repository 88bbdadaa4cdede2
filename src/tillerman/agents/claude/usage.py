"""Computes the token usage and cost of each turn from the CLI's counters.

`model_usage_since_last_result` is exact, includes subagents, and is correct after a resume. 2.1.197
has only totals that start at zero with the process: the last total is subtracted. `input_tokens`
excludes tokens read from a cache; `cached_tokens` counts those.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tillerman.agents.decoding.fields import Table, count, number, table
from tillerman.core.events import UsageReported


class _Used(NamedTuple):
    input: int = 0
    output: int = 0
    cached: int = 0
    cost: float | None = None

    def minus(self, other: _Used) -> _Used:
        """Subtracts an earlier total; a total that decreased has been reset."""
        if (self.input, self.output) < (other.input, other.output):
            return self
        cost = None if self.cost is None else round(self.cost - (other.cost or 0), 9)
        return _Used(
            self.input - other.input,
            self.output - other.output,
            max(0, self.cached - other.cached),
            cost if cost is None or cost >= 0 else self.cost,
        )

    def plus(self, other: _Used) -> _Used:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return _Used(
            self.input + other.input,
            self.output + other.output,
            self.cached + other.cached,
            round(sum(costs), 9) if costs else None,
        )


class ClaudeUsage:
    def __init__(self) -> None:
        self._total = _Used()
        self._turn = _Used()
        self._context: int | None = None
        self._window: int | None = None

    def message(self, usage: Table) -> Iterator[UsageReported]:
        """Reports the context size when a message starts."""
        self._context = (
            count(usage, "input_tokens")
            + count(usage, "cache_read_input_tokens")
            + count(usage, "cache_creation_input_tokens")
        ) or None
        if self._context:
            yield UsageReported(
                context_used=self._context, context_limit=self._window, call="begun"
            )

    def count(self, result: Table, model: str) -> None:
        self._turn = self._turn.plus(self._since(result))
        self._window = _window(table(result, "modelUsage"), model) or self._window

    def report(self) -> UsageReported:
        """The usage counted since the last report."""
        used, self._turn = self._turn, _Used()
        return UsageReported(
            input_tokens=used.input,
            output_tokens=used.output,
            cached_tokens=used.cached,
            cost_usd=used.cost,
            context_used=self._context,
            context_limit=self._window,
        )

    def _since(self, result: Table) -> _Used:
        total = _models(table(result, "modelUsage"))._replace(cost=number(result, "total_cost_usd"))
        since = total.minus(self._total)
        self._total = total
        if isinstance(models := result.get("model_usage_since_last_result"), dict):
            return _models(models)
        if since.input or since.output:
            return since
        usage = table(result, "usage")
        return _Used(
            count(usage, "input_tokens") + count(usage, "cache_creation_input_tokens"),
            count(usage, "output_tokens"),
            count(usage, "cache_read_input_tokens"),
            since.cost,
        )


def _models(models: Table) -> _Used:
    used = _Used()
    for name in models:
        model = table(models, name)
        used = used.plus(
            _Used(
                count(model, "inputTokens") + count(model, "cacheCreationInputTokens"),
                count(model, "outputTokens"),
                count(model, "cacheReadInputTokens"),
                number(model, "costUSD"),
            )
        )
    return used


def _window(models: Table, model: str) -> int | None:
    """The context window of the main model, if it is distinguishable from helper models."""
    one = model if model in models else next(iter(models)) if len(models) == 1 else ""
    return count(table(models, one), "contextWindow") or None
