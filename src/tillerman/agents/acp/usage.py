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
from typing import Literal, NamedTuple

from tillerman.agents.decoding.fields import Table, at, count, number, table, text
from tillerman.core.events import UsageReported


class _Tokens(NamedTuple):
    input: int = 0
    output: int = 0
    cached: int = 0

    def plus(self, other: _Tokens) -> _Tokens:
        return _Tokens(*(one + another for one, another in zip(self, other, strict=True)))

    def less(self, other: _Tokens) -> _Tokens:
        return _Tokens(*(max(0, one - another) for one, another in zip(self, other, strict=True)))


class AcpUsage:
    def __init__(self) -> None:
        self._told = _Tokens()  # reported in this turn, call by call
        self._cost: float | None = None  # of the session so far
        self._paid = 0.0  # part of the cost that belongs to earlier turns
        self._context: int | None = None
        self._window: int | None = None
        self._known: tuple[int | None, int | None] = (None, None)  # last reported values of these
        self._reads = False  # the next update belongs to a new model call

    def update(self, update: Table) -> Iterator[UsageReported]:
        """Handles `usage_update`."""
        self._context = count(update, "used") or self._context
        self._window = count(update, "size") or self._window
        cost = number(table(update, "cost"), "amount")
        if cost is None:
            if self._reads and self._context:
                self._reads = False
                yield self._report(_Tokens(), call="begun")
        elif text(table(update, "cost"), "currency") in ("USD", ""):
            self._cost = cost

    def call(self, usage: Table, *, main: bool) -> Iterator[UsageReported]:
        """Counts a finished model call; `main`: not a call of a subagent."""
        self._reads = False
        tokens = _tokens(usage)
        self._told = self._told.plus(tokens)
        if main:
            self._context = tokens.input + tokens.cached or self._context
        if any(tokens):
            yield self._report(tokens, call="done" if main else None)

    def begin(self) -> None:
        """Starts a turn: earlier costs do not count for it."""
        self._paid = self._cost or 0.0

    def told_model(self) -> None:
        """A prompt or a tool result was sent: the next model call begins."""
        self._reads = True

    def report(self, result: Table, *, whole: bool = True) -> Iterator[UsageReported]:
        """Reports the rest of a finished turn; `whole`: the response counts the whole turn."""
        told = table(result, "usage") if whole else {}
        quota = at(result, "_meta", "quota", "token_count")
        if told:
            tokens = _tokens(told)
        elif isinstance(quota, dict):
            tokens = _Tokens(count(quota, "input_tokens"), count(quota, "output_tokens"))
        else:
            tokens = _Tokens()
        rest, self._told, self._reads = tokens.less(self._told), _Tokens(), False
        cost = None if self._cost is None else round(self._cost - self._paid, 9)
        if any(rest) or cost is not None or (self._context, self._window) != self._known:
            yield self._report(rest, cost if cost is None or cost >= 0 else self._cost)

    def _report(
        self,
        tokens: _Tokens,
        cost: float | None = None,
        call: Literal["begun", "done"] | None = None,
    ) -> UsageReported:
        self._known = (self._context, self._window)
        return UsageReported(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            cached_tokens=tokens.cached,
            cost_usd=cost,
            context_used=self._context,
            context_limit=self._window,
            call=call,
        )


def _tokens(usage: Table) -> _Tokens:
    input, output = count(usage, "inputTokens"), count(usage, "outputTokens")
    thought, read = count(usage, "thoughtTokens"), count(usage, "cachedReadTokens")
    written = count(usage, "cachedWriteTokens")
    match (count(usage, "totalTokens") or -1) - input - output:
        case 0:  # input and output include everything
            return _Tokens(max(0, input - read), output, read)
        case rest if rest == thought and thought != read + written:
            return _Tokens(max(0, input - read), output + thought, read)
        case rest if rest == read + written:
            return _Tokens(input + written, output, read)
    return _Tokens(input + written, output + thought, read)
