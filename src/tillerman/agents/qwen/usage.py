"""Computes the token usage of each turn of Qwen Code's stream from totals.

A result counts the whole process including its side requests, and after a resume the earlier
processes too: the last total is subtracted, and if there is none yet the turn's own calls count.
"""

from __future__ import annotations

from typing import NamedTuple

from tillerman.agents.decoding.fields import Table, count
from tillerman.core.events import UsageReported


class _Tokens(NamedTuple):
    input: int = 0  # includes cached tokens
    output: int = 0
    cached: int = 0


class QwenUsage:
    def __init__(self, *, resumed: bool) -> None:
        self._total = None if resumed else _Tokens()
        self._calls = _Tokens()
        self._context: int | None = None

    def call(self, usage: Table) -> None:
        """Counts a model response; of one in several parts only the last has numbers."""
        told = _tokens(usage)
        self._calls = _Tokens(*(a + b for a, b in zip(self._calls, told, strict=True)))
        self._context = told.input or self._context

    def report(self, usage: Table) -> UsageReported:
        total = _tokens(usage)
        used = self._calls
        if self._total is not None:
            used = _Tokens(*(max(0, a - b) for a, b in zip(total, self._total, strict=True)))
        self._total, self._calls = total, _Tokens()
        return UsageReported(
            input_tokens=max(0, used.input - used.cached),
            output_tokens=used.output,
            cached_tokens=used.cached,
            context_used=self._context,
        )


def _tokens(usage: Table) -> _Tokens:
    return _Tokens(
        count(usage, "input_tokens"),
        count(usage, "output_tokens"),
        count(usage, "cache_read_input_tokens"),
    )
