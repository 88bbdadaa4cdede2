"""Tokens of the turn that runs, for the response to its prompt."""

from __future__ import annotations

from tillerman.core.events import Entry, TurnStarted, UsageReported
from tillerman.core.json_fields import Table


class TurnUsage:
    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._input = self._output = self._cached = 0

    def add(self, entry: Entry) -> None:
        match entry.event:
            case TurnStarted():
                self._begin()
            case UsageReported() as event:
                self._input += event.input_tokens
                self._output += event.output_tokens
                self._cached += event.cached_tokens

    def told(self) -> Table:
        """Empty if the agent reported nothing."""
        total = self._input + self._output + self._cached
        if not total:
            return {}
        counts = {"inputTokens": self._input, "outputTokens": self._output}
        return {"usage": {**counts, "cachedReadTokens": self._cached, "totalTokens": total}}
