"""Measures the usage of a prompt against its limits: cost, tokens, model calls.

A turn that the agent starts by itself counts with the prompt before it. Some agents report the
tokens of a model call only at the end of the turn: until then the call counts with its minimum, the
context that it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tillerman.core.events import Event, UsageReported
from tillerman.core.failure import Failure
from tillerman.core.transcript.usage_totals import added
from tillerman.sessions.limits.model_calls import SHOWN, ModelCallCounter
from tillerman.sessions.run_settings import TurnLimits

if TYPE_CHECKING:
    from tillerman.config.model_table import Models

_ITS_MODEL = "its model"


class UsageMeter:
    def __init__(self, limits: TurnLimits, models: Callable[[], Models]) -> None:
        self._limits = limits
        self._models = models
        counted = (limits.cost, limits.tokens, limits.turns) != (None, None, None)
        self.watches: frozenset[type] = SHOWN if counted else frozenset()
        self.begin()

    def begin(self) -> None:
        """Resets for a new prompt."""
        self._used: UsageReported | None = None
        self._rounds = ModelCallCounter()
        self._clear_open()

    def begin_turn(self) -> None:
        """Starts a turn of the agent or a fallback agent; how it reports calls is not known yet."""
        self._rounds = self._rounds.for_next_turn()
        self._clear_open()

    def _clear_open(self) -> None:
        self._open_tokens = 0  # minimum tokens of calls that are reported later
        self._open_cost = 0.0
        self._context = 0  # of the last of these calls
        self._unpriced = ""  # their model, if it has no price

    @property
    def cost(self) -> float:
        reported = (self._used.cost_usd if self._used else None) or 0.0
        return reported + self._open_cost

    def gap(self, agent: str) -> str:
        """Why a limit cannot be enforced for now; empty if it can."""
        cost, tokens = self._limits.cost is not None, self._limits.tokens is not None
        if (cost or tokens) and self._rounds.unreported > 1:
            flags = " and ".join(["--max-cost"] * cost + ["--max-tokens"] * tokens)
            return (
                f"{agent} has reported no usage yet: {flags} cannot be enforced until it does, "
                "but --max-turns and --timeout can"
            )
        if cost and self._unpriced and not self._limits.accept_unpriced:
            return f"no price is known for {self._unpriced}: --max-cost cannot stop {agent} yet"
        return ""

    def check_price(self, model: str | None) -> Failure | None:
        """For an agent that reports no cost: why a cost limit cannot be enforced, or None."""
        limit = self._limits.cost
        if limit is None or (model and self._models().price(model)):
            return None
        return no_price(model, limit)

    def priced(self, usage: UsageReported, model: str | None) -> UsageReported:
        """Adds the cost from the price table, if the agent reports none."""
        tokens = (usage.input_tokens, usage.output_tokens, usage.cached_tokens)
        if usage.cost_usd is not None or not model or not any(tokens):
            return usage
        price = self._models().price(model)
        if price is None:
            return usage
        return replace(usage, cost_usd=price.cost(*tokens), priced=price.date or "config")

    def use(self, usage: UsageReported, model: str | None) -> Failure | None:
        """Adds usage; returns why the agent must stop, or None. Skips reports of subagents."""
        if usage.parent is not None:
            return None
        self._rounds.usage_reported(usage)
        self._used = added(self._used, _nothing_given_back(usage))
        if usage.call == "begun":
            self._read(usage.context_used or 0, model)
        elif _tokens(usage):
            self._clear_open()
            limits = self._limits
            if usage.cost_usd is None and limits.cost is not None and not limits.accept_unpriced:
                return no_price(model, limits.cost)
        return self.over()

    def count(self, event: Event) -> Failure | None:
        """Like `use`, for an event of a type in `watches`."""
        if event.parent is None:
            self._rounds.shown(event)
        return self.over()

    def over(self) -> Failure | None:
        """Returns the exceeded limit, or None."""
        limits, least = self._limits, "at least " if self._open_tokens else ""
        tokens = self._open_tokens + (_tokens(self._used) if self._used else 0)
        if limits.cost is not None and self.cost > limits.cost:
            message = f"{least}${self.cost:.4g} spent, over the limit of ${limits.cost:g}"
            return Failure(kind="cost_limit", message=message, hint=_hint("--max-cost"))
        if limits.tokens is not None and tokens > limits.tokens:
            message = f"{least}{tokens} tokens used, over the limit of {limits.tokens}"
            return Failure(kind="token_limit", message=message, hint=_hint("--max-tokens"))
        rounds = self._rounds.count
        if limits.turns is not None and rounds > limits.turns:
            message = f"the agent started model call {rounds}, over the limit of {limits.turns}"
            return Failure(kind="turn_limit", message=message, hint=_hint("--max-turns"))
        return None

    def _read(self, context: int, model: str | None) -> None:
        """Adds a call's context; what the previous call read may have come from a cache."""
        new, self._context = max(0, context - self._context), context
        self._open_tokens += context
        if self._limits.cost is None:
            return
        if price := self._models().price(model) if model else None:
            self._open_cost += price.cost(new, 0, context - new)
        else:
            self._unpriced = model or _ITS_MODEL


def _tokens(usage: UsageReported) -> int:
    return usage.input_tokens + usage.output_tokens + usage.cached_tokens


def _nothing_given_back(usage: UsageReported) -> UsageReported:
    """Clamps negative numbers to zero: an agent must not raise its own limit by them."""
    if min(usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cost_usd or 0) >= 0:
        return usage
    return replace(
        usage,
        input_tokens=max(0, usage.input_tokens),
        output_tokens=max(0, usage.output_tokens),
        cached_tokens=max(0, usage.cached_tokens),
        cost_usd=None if usage.cost_usd is None else max(0.0, usage.cost_usd),
    )


def no_price(model: str | None, limit: float) -> Failure:
    """The failure for a model without a price: a requested limit must not be ignored."""
    name = model or _ITS_MODEL
    return Failure(
        kind="cost_limit",
        message=f"a cost limit of ${limit:g} cannot be enforced: no price is known for {name}",
        hint="set its price under [models] in the config, use --max-tokens, or continue "
        "without the limit: --accept-unpriced",
    )


def _hint(flag: str) -> str:
    return f"raise {flag}, or prompt again to continue"
