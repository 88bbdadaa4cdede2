"""Computes the token usage and cost of each turn from the counters of an ACP agent.

Tokens come with the response to a prompt (`usage`, or `_meta.quota.token_count`), or after each
model call as `_meta.usage` of an empty chunk. Some agents include cached tokens in the input and
thought tokens in the output: the total shows which. `usage_update` has the context size, and the
cost of the session so far. `input_tokens` excludes tokens read from a cache.

What is known before the end of the turn is reported at once so that limits apply: the tokens of a
call, or the context that a call reads. Of several updates within one call the first counts.

An agent that counts only its last model call reports too little for a turn with tools: the tokens
are then left out, which is better than a number that is too low.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from tillerman.agents.decoding.fields import Table, at, count, number, table, text
from tillerman.agents.decoding.token_meter import TokenCounts, TokenMeter
from tillerman.core.events import UsageReported


class AcpUsage(TokenMeter):
    def __init__(self) -> None:
        super().__init__()
        self._reported = TokenCounts()  # reported in this turn, call by call
        self._cost: float | None = None  # of the session so far
        self._earlier_cost = 0.0  # part of the cost that belongs to earlier turns
        self._known: tuple[int | None, int | None] = (None, None)  # last reported values of these
        self._reads = False  # the next update belongs to a new model call

    def update(self, update: Table) -> Iterator[UsageReported]:
        """Handles `usage_update`."""
        self.context = count(update, "used") or self.context
        self.window = count(update, "size") or self.window
        cost = number(table(update, "cost"), "amount")
        if cost is None:
            if self._reads and self.context:
                self._reads = False
                yield self.reported(TokenCounts(), call="begun")
        elif text(table(update, "cost"), "currency") in ("USD", ""):
            self._cost = cost

    def call(self, usage: Table, *, main: bool) -> Iterator[UsageReported]:
        """Counts a finished model call; `main`: not a call of a subagent."""
        self._reads = False
        tokens = _counts(usage)
        self._reported = self._reported.plus(tokens)
        if main:
            self.context = tokens.input + tokens.cached or self.context
        if any(tokens):
            yield self.reported(tokens, call="done" if main else None)

    def begin(self) -> None:
        """Starts a turn: earlier costs do not count for it."""
        self._earlier_cost = self._cost or 0.0

    def reported_model(self) -> None:
        """A prompt or a tool result was sent: the next model call begins."""
        self._reads = True

    def result(self, result: Table, *, whole: bool = True) -> Iterator[UsageReported]:
        """Reports the rest of a finished turn; `whole`: the response counts the whole turn."""
        fields = table(result, "usage") if whole else {}
        quota = at(result, "_meta", "quota", "token_count")
        if fields:
            tokens = _counts(fields)
        elif isinstance(quota, dict):
            tokens = TokenCounts(count(quota, "input_tokens"), count(quota, "output_tokens"))
        else:
            tokens = TokenCounts()
        rest, self._reported, self._reads = tokens.minus(self._reported), TokenCounts(), False
        cost = TokenCounts(cost=self._cost).minus(TokenCounts(cost=self._earlier_cost)).cost
        if any(rest) or cost is not None or (self.context, self.window) != self._known:
            yield self.reported(rest._replace(cost=cost))

    def reported(
        self, counts: TokenCounts, call: Literal["begun", "done"] | None = None
    ) -> UsageReported:
        self._known = (self.context, self.window)
        return super().reported(counts, call)


def _counts(usage: Table) -> TokenCounts:
    input, output = count(usage, "inputTokens"), count(usage, "outputTokens")
    thought, read = count(usage, "thoughtTokens"), count(usage, "cachedReadTokens")
    written = count(usage, "cachedWriteTokens")
    match (count(usage, "totalTokens") or -1) - input - output:
        case 0:  # input and output include everything
            return TokenCounts(max(0, input - read), output, read)
        case rest if rest == thought and thought != read + written:
            return TokenCounts(max(0, input - read), output + thought, read)
        case rest if rest == read + written:
            return TokenCounts(input + written, output, read)
    return TokenCounts(input + written, output + thought, read)
