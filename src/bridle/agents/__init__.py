"""The agents bridle can drive, found by their `bridle.agents` entry points."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from bridle.core.agent import Agent
from bridle.core.errors import AgentUnknown, ConfigError

GROUP = "bridle.agents"


def available() -> dict[str, str]:
    """Name and `module:attribute` of every agent that an installed distribution offers.

    Read here rather than by `importlib.metadata`, which alone takes longer to import than the
    command line takes to start an agent.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        for file in sorted(Path(folder or ".").glob("*.*-info/entry_points.txt")):
            for name, target in _points(file.read_text("utf-8")):
                found.setdefault(name, target)
    return dict(sorted(found.items()))


def load(name: str) -> Agent:
    points = available()
    if name not in points:
        raise AgentUnknown(name, list(points))
    module, _, attribute = points[name].partition(":")
    try:
        agent: Agent = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"agent {name!r} cannot be loaded from {points[name]}: {error}",
            hint="reinstall the package that offers it",
        ) from error
    return agent


def _points(text: str) -> list[tuple[str, str]]:
    section, found = "", []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        elif section == GROUP and "=" in line:
            name, _, target = line.partition("=")
            found.append((name.strip(), target.split("[")[0].strip()))
    return found
