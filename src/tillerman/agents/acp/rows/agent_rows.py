"""Table of known ACP agents, and agents that a user defines by one command line."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from msgspec.structs import replace

from tillerman.agents.acp.rows.agent_row import AcpAgentRow
from tillerman.core.errors import ConfigError
from tillerman.core.tools import ToolClass

if TYPE_CHECKING:
    from tillerman.agents.acp.rows.row_agent import RowAgent

_PREFIX = "acp:"


@cache
def rows() -> Mapping[str, AcpAgentRow]:
    """The rows of `acp_agents.toml`, by name."""
    import tomllib
    from pathlib import Path

    from msgspec import convert

    text = Path(__file__).with_name("acp_agents.toml").read_text("utf-8")
    return {
        name: convert({"name": name, **row}, AcpAgentRow)
        for name, row in tomllib.loads(text).items()
    }


def driver(row: AcpAgentRow) -> RowAgent:
    from tillerman.agents.acp.rows.row_agent import ListingRowAgent, RowAgent

    return ListingRowAgent(row) if row.lists else RowAgent(row)


def made(name: str, options: Mapping[str, Any]) -> RowAgent:
    """Builds the agent for `acp:COMMAND` or for `[agents.NAME] acp = "COMMAND"` in the config.

    An existing row of that name supplies the other fields.
    """
    line = name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else options["acp"]
    command = _words(name, line)
    row = rows().get(name) or AcpAgentRow(name=name, command=command, title=command[0])
    variables = (*row.variables, *options.get("variables", ()))
    asks = row.asks | _asks(name, options.get("asks", ()))
    return driver(replace(row, command=command, variables=variables, asks=asks))


def _asks(name: str, words: object) -> frozenset[ToolClass]:
    """Parses the tool classes that, according to the user, the agent asks for; not verified."""
    known = get_args(ToolClass)
    reported = words.replace(",", " ").split() if isinstance(words, str) else words
    if not isinstance(reported, (list, tuple)):
        reported = [reported]
    if wrong := [word for word in reported if word not in known]:
        raise ConfigError(
            f"agent {name!r}: unknown class in asks: {wrong[0]!r}",
            hint=f"use some of: {', '.join(known)}",
        )
    return frozenset(reported)


def _words(name: str, line: object) -> tuple[str, ...]:
    import shlex

    try:
        words = tuple(shlex.split(line)) if isinstance(line, str) else ()
    except ValueError as error:
        raise ConfigError(
            f"the command of agent {name!r} is not a command line: {error}",
            hint="quote it as for a shell",
        ) from None
    if not words:
        raise ConfigError(f"agent {name!r} has no command", hint='set one: acp = "PROGRAM --acp"')
    return words
