"""What one prompt has used, held against its limits, whatever the agent itself can limit.

A turn that the agent begins by itself counts with the prompt before it. Rounds of the model are
counted by what shows of them: words or calls that follow upon the result of a call are a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bridle.core.events import (
    Event,
    MessageChunk,
    ThoughtChunk,
    ToolFinished,
    ToolStarted,
    UsageReported,
)
from bridle.core.failure import Failure
from bridle.core.usage import added
from bridle.sessions.terms import Limits

if TYPE_CHECKING:
    from bridle.config.models import Models

_ROUNDS = frozenset({MessageChunk, ThoughtChunk, ToolStarted, ToolFinished})


class Meter:
    def __init__(self, limits: Limits, models: Callable[[], Models]) -> None:
        self._limits = limits
        self._models = models
        self.watches: frozenset[type] = frozenset() if limits.turns is None else _ROUNDS
        self.begin()

    def begin(self) -> None:
        """A new prompt."""
        self._used: UsageReported | None = None
        self._rounds = 0
        self._answered = True  # a call has its result: what comes next is a new round

    @property
    def cost(self) -> float:
        return (self._used.cost_usd if self._used else None) or 0.0

    def priced(self, usage: UsageReported, model: str | None) -> UsageReported:
        """With the cost by the table of prices, where the agent tells none."""
        tokens = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        if usage.cost_usd is not None or not model or not any(tokens):
            return usage
        price = self._models().price(model)
        if price is None:
            return usage
        return replace(usage, cost_usd=price.cost(*tokens), priced=price.date or "config")

    def use(self, usage: UsageReported) -> Failure | None:
        """Why the agent must stop now, if it must. A subagent's part is in its agent's report."""
        if usage.parent is not None:
            return None
        used = self._used = added(self._used, usage)
        tokens = used.input_tokens + used.output_tokens + used.cached_tokens
        limits = self._limits
        if limits.cost is not None and self.cost > limits.cost:
            message = f"${self.cost:.4g} were spent, more than {limits.cost:g}"
            return Failure(kind="cost_limit", message=message, hint=_hint("--max-cost"))
        if limits.tokens is not None and tokens > limits.tokens:
            message = f"{tokens} tokens were used, more than {limits.tokens}"
            return Failure(kind="token_limit", message=message, hint=_hint("--max-tokens"))
        return None

    def count(self, event: Event) -> Failure | None:
        """As `use`, of an event that `watches` names."""
        if event.parent is not None:
            return None
        if isinstance(event, ToolFinished):
            self._answered = True
        elif self._answered:
            self._answered = False
            self._rounds += 1
        limit = self._limits.turns
        if limit is not None and self._rounds > limit:
            message = f"the agent began round {self._rounds} of at most {limit}"
            return Failure(kind="turn_limit", message=message, hint=_hint("--max-turns"))
        return None


def _hint(flag: str) -> str:
    return f"raise {flag}, or prompt again to go on"
