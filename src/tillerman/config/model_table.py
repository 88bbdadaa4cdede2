"""Model table: unified model names, their vendor names per agent, and prices.

The shipped table is `model_table.toml`; `[models]` in the config extends and overrides it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from tillerman.core.errors import UsageError

FILE = Path(__file__).with_name("model_table.toml")
PRICE = "price"
_DATED = re.compile(r"(-\d{8}|-\d{4}-\d{2}-\d{2}|\[1m\])+$")  # date or context suffix


class Price(NamedTuple):
    """Price in US dollars per million tokens."""

    input: float
    output: float
    cached: float
    date: str = ""  # of the shipped table; "" when set by the user

    def cost(self, input: int, output: int, cached: int) -> float:
        dollars = input * self.input + output * self.output + cached * self.cached
        return round(dollars / 1_000_000, 9)


class VendorModel(NamedTuple):
    """The model name to pass to an agent, and a warning if the agent may not know it."""

    name: str
    warning: str = ""


class Models(Struct, frozen=True):
    rows: Mapping[str, Mapping[str, Any]]  # by unified name: agent -> vendor name
    rules: tuple[tuple[str, str], ...]  # (pattern, agent)
    prices_of: str
    priced_by_user: frozenset[str] = frozenset()

    def own(self, agent: str, model: str) -> VendorModel:
        """Translates a unified name to the agent's name; passes unknown names through."""
        row = self.rows.get(model, {})
        if agent in row:
            return VendorModel(str(row[agent]))
        if self.knows(agent, model):
            return VendorModel(model)
        others = [name for name in row if name != PRICE]
        if others:
            why = f"{model} is known as a model of {', '.join(others)}, not of {agent}"
        elif any(agent in known for known in self.rows.values()):
            why = f"{agent} is not known to have a model named {model}"
        else:
            return VendorModel(model)  # the table has no models for this agent
        return VendorModel(model, f"{why}: the name is passed unchanged")

    def knows(self, agent: str, model: str) -> bool:
        """Matches the unified name or the agent's vendor name, with or without a date suffix."""
        plain = _DATED.sub("", model)
        return agent in self.rows.get(model, {}) or any(
            row.get(agent) in (model, plain) for row in self.rows.values()
        )

    def whose(self, model: str) -> tuple[str, ...]:
        """Agents known to offer the model, else the one inferred from its name, else empty."""
        plain = _DATED.sub("", model)
        having = [name for name in self.rows.get(model, {}) if name != PRICE]
        for row in self.rows.values():
            having += [n for n, own in row.items() if n != PRICE and own in (model, plain)]
        if having:
            return tuple(dict.fromkeys(having))
        try:
            return (self.agent_of(model),)
        except UsageError:
            return ()

    def agent_of(self, model: str) -> str:
        """Infers the agent from a model name when no agent is given."""
        for pattern, agent in self.rules:
            if re.search(pattern, model, re.IGNORECASE):
                return agent
        for name in self.rows.get(model, {}):
            if name != PRICE:
                return name
        from difflib import get_close_matches

        near = get_close_matches(model.lower(), self.rows, n=3)
        agent = "name the agent too (-a)"
        if near:
            hint = f"did you mean {' or '.join(near)}? Otherwise {agent}"
        else:
            hint = f"{agent}, or one of these models: {', '.join(sorted(self.rows))}"
        raise UsageError(f"no agent is known for model {model!r}", hint=hint)

    def price(self, model: str) -> Price | None:
        """Price of a model by any of its names; None if the table has no price."""
        plain = _DATED.sub("", model)
        for name, row in self.rows.items():
            if PRICE in row and (name in (model, plain) or {model, plain} & _names(row)):
                input, output, *cached = row[PRICE]
                date = "" if name in self.priced_by_user else self.prices_of
                return Price(input, output, cached[0] if cached else input, date)
        return None


def load_models(added: Mapping[str, Mapping[str, Any]] | None = None) -> Models:
    """Loads the shipped table and merges the user's `[models]` into it."""
    shipped = tomllib.loads(FILE.read_text("utf-8"))
    rows: dict[str, dict[str, Any]] = shipped["models"]
    added = added or {}
    for name, row in added.items():
        rows[name] = {**rows.get(name, {}), **row}
    return Models(
        rows=rows,
        rules=tuple((rule["pattern"], rule["agent"]) for rule in shipped["infer"]),
        prices_of=shipped["prices_of"],
        priced_by_user=frozenset(name for name, row in added.items() if PRICE in row),
    )


def _names(row: Mapping[str, Any]) -> set[str]:
    return {value for key, value in row.items() if key != PRICE}
