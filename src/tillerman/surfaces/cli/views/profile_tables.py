"""Formats agent profiles as table rows and in detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tillerman.config import Config
from tillerman.config.profiles import InvalidProfile, Profile, profiles
from tillerman.core.errors import ConfigError
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.rendering.ansi_style import Style

HEAD = ("PROFILE", "AGENT", "MODEL", "WHAT")


def found(config: Config, cwd: Path, agents: Sequence[str]) -> list[Profile | InvalidProfile]:
    """Profiles of the project and the user; one named like an agent is marked invalid."""
    return [_shadowed(one, agents) for one in profiles(config.paths, cwd)]


def cells(one: Profile | InvalidProfile) -> tuple[str, ...]:
    if isinstance(one, InvalidProfile):
        return (one.name, "", "", f"ignored: {clean(one.problem)}")
    return (one.name, ", ".join(one.agents), one.model or "", clean(one.description))


def account_of(one: Profile | InvalidProfile, style: Style) -> Iterator[str]:
    if isinstance(one, InvalidProfile):
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


def _shadowed(one: Profile | InvalidProfile, agents: Sequence[str]) -> Profile | InvalidProfile:
    if one.name not in agents:
        return one
    return InvalidProfile(one.name, one.path, "an agent already has this name", "rename the file")
