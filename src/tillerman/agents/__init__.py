"""Finds and loads agents: entry points, known ACP agents, ACP commands, a program's own."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from msgspec import ValidationError, convert
from msgspec.structs import asdict

from tillerman.agent_packages import entry_points
from tillerman.core.agent import Agent, AgentInfo
from tillerman.core.contract import mismatch
from tillerman.core.errors import AgentUnknown, ConfigError, UsageError

AD_HOC = "acp:"  # followed by a command line

_registered: dict[str, Agent] = {}  # by this program

Options = Mapping[str, Mapping[str, Any]]  # the [agents.NAME] tables of the config


def register(agent: Agent) -> None:
    """Makes an agent known to this program by the name in its `info`, before all others."""
    if not isinstance(getattr(agent, "info", None), AgentInfo):
        raise UsageError(
            f"{agent!r} is not an agent: it has no `info`",
            hint="give an object whose `info` is an `AgentInfo`",
        )
    if why := _undeclarable(agent.info):
        raise UsageError(
            f"the `info` of agent {agent.info.name!r} is not valid: {why}",
            hint="give each field of AgentInfo a value of its type",
        )
    name = agent.info.name
    if not name.isprintable() or not name or set(name) & set(":, /"):
        raise UsageError(
            f"an agent cannot be named {name!r}",
            hint="use a name without colons, commas, slashes and blanks",
        )
    if found := mismatch(agent.info.built_for):
        reason, hint = found
        raise ConfigError(f"agent {name!r} is not compatible: {reason}", hint=hint)
    _registered[name] = agent


def available(options: Options | None = None, *, experimental: bool = False) -> dict[str, str]:
    """Maps the name of every agent to its source."""
    from tillerman.agents.acp.rows.agent_rows import rows

    found = {name: "config" for name, table in (options or {}).items() if "acp" in table}
    found |= {name: "ACP" for name, row in rows().items() if experimental or not row.experimental}
    found |= entry_points() | dict.fromkeys(_registered, "this program")
    return dict(sorted(found.items()))


def is_users_own(name: str, options: Options | None = None) -> bool:
    """Whether the user defines this agent by its command."""
    return name.startswith(AD_HOC) or "acp" in (options or {}).get(name, {})


def load(name: str, options: Options | None = None, *, experimental: bool = False) -> Agent:
    """Loads an agent by name; `acp:COMMAND ARGUMENTS` is a valid name too."""
    if agent := _registered.get(name):
        return agent
    if is_users_own(name, options):
        from tillerman.agents.acp.rows.agent_rows import made

        return made(name, (options or {}).get(name, {}))
    if target := entry_points().get(name):
        return _imported(name, target)
    from tillerman.agents.acp.rows.agent_rows import driver, rows

    row = rows().get(name)
    if row is None:
        raise AgentUnknown(name, list(available(options, experimental=experimental)))
    if row.experimental and not experimental:
        raise ConfigError(
            f"agent {name!r} is experimental",
            hint="`tillerman config set experimental_agents yes` enables such agents",
        )
    return driver(row)


def _undeclarable(info: AgentInfo) -> str:
    """Why the declaration cannot be relied on: a field has another type than it should have."""
    try:
        convert(asdict(info), AgentInfo)
    except ValidationError as error:
        return str(error)
    return ""


def _imported(name: str, target: str) -> Agent:
    module, _, attribute = target.partition(":")
    try:
        agent: Agent = getattr(import_module(module), attribute)
        if not isinstance(agent.info, AgentInfo):
            raise TypeError("it is not an agent")
        if why := _undeclarable(agent.info):
            raise TypeError(why)
        if agent.info.name != name:
            raise TypeError(f"its info is of another agent, {agent.info.name!r}")
    except Exception as error:  # a third-party module may fail in any way
        raise ConfigError(
            f"agent {name!r} cannot be loaded from {target}: {error}",
            hint="reinstall the package that provides it",
        ) from error
    if found := mismatch(agent.info.built_for):
        reason, hint = found
        raise ConfigError(f"agent {name!r} from {target} is not compatible: {reason}", hint=hint)
    return agent
