"""How profiles are shown: as rows beside the agents, and one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tillerman.config import Config
from tillerman.config.profiles import Broken, Profile, profiles
from tillerman.core.errors import ConfigError
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.cli.views.output import Style

HEAD = ("PROFILE", "AGENT", "MODEL", "WHAT")


def found(config: Config, cwd: Path, agents: Sequence[str]) -> list[Profile | Broken]:
    """Those of this folder and of the user; one that is called as an agent is never asked for."""
    return [_shadowed(one, agents) for one in profiles(config.paths, cwd)]


def cells(one: Profile | Broken) -> tuple[str, ...]:
    if isinstance(one, Broken):
        return (one.name, "", "", f"does not count: {clean(one.problem)}")
    return (one.name, ", ".join(one.agents), one.model or "", clean(one.description))


def account_of(one: Profile | Broken, style: Style) -> Iterator[str]:
    if isinstance(one, Broken):
        raise ConfigError(f"{one.path}: {one.problem}", hint=one.hint)
    yield f"{style('bold', one.name)}  {clean(one.description)}".rstrip()
    yield f"  from {one.path}"
    for word, value in {
        "agent": ", ".join(one.agents),
        "model": one.model,
        "mode": one.mode,
        "tools": ", ".join(one.tools),
        "color": one.color,
    }.items():
        if value:
            yield f"  {word}: {clean(value)}"
    if one.system:
        yield from ("", clean(one.system))


def _shadowed(one: Profile | Broken, agents: Sequence[str]) -> Profile | Broken:
    if one.name not in agents:
        return one
    return Broken(one.name, one.path, "an agent has this name", "give the file another")
