"""Computes the token usage and cost of each turn from the CLI's counters.

`model_usage_since_last_result` is exact, includes subagents, and is correct after a resume. 2.1.197
has only totals that start at zero with the process: the last total is subtracted. `input_tokens`
excludes tokens read from a cache; `cached_tokens` counts those.
"""

from __future__ import annotations

from collections.abc import Iterator

from tillerman.agents.decoding.fields import Table, count, number, table
from tillerman.agents.decoding.token_meter import TokenCounts, TokenMeter
from tillerman.core.events import UsageReported


class ClaudeUsage(TokenMeter):
    def message(self, usage: Table) -> Iterator[UsageReported]:
        """Reports the context size when a message starts."""
        self.context = (
            count(usage, "input_tokens")
            + count(usage, "cache_read_input_tokens")
            + count(usage, "cache_creation_input_tokens")
        ) or None
        if self.context:
            yield self.reported(TokenCounts(), call="begun")

    def count(self, result: Table, model: str) -> None:
        self.add(self._since(result))
        self.window = _window(table(result, "modelUsage"), model) or self.window

    def _since(self, result: Table) -> TokenCounts:
        total = _models(table(result, "modelUsage"))._replace(cost=number(result, "total_cost_usd"))
        since = self.since_total(total)
        if isinstance(models := result.get("model_usage_since_last_result"), dict):
            return _models(models)
        if since.input or since.output:
            return since
        usage = table(result, "usage")
        return TokenCounts(
            count(usage, "input_tokens") + count(usage, "cache_creation_input_tokens"),
            count(usage, "output_tokens"),
            count(usage, "cache_read_input_tokens"),
            since.cost,
        )


def _models(models: Table) -> TokenCounts:
    used = TokenCounts()
    for name in models:
        model = table(models, name)
        used = used.plus(
            TokenCounts(
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
