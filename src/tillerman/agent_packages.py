"""Finds the packages that offer agents, by entry point, and loads single modules of them.

What is known of an agent besides its driver is in modules with fixed names in its package:
`hook_dialect` and `cli_setup`. None is imported before it is needed.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

GROUP = "tillerman.agents"


def entry_points() -> dict[str, str]:
    """Maps agent names to `module:attribute` for every installed distribution that offers agents.

    Reads the files directly: importing `importlib.metadata` alone takes longer than the command
    line takes to start an agent.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        for file in sorted(Path(folder or ".").glob("*.*-info/entry_points.txt")):
            for name, target in _points(_text(file)):
                found.setdefault(name, target)
    return found


def agents_with(module: str) -> tuple[str, ...]:
    """The agents whose package has this module; of several agents in a package, the first."""
    found: dict[str, str] = {}
    for name, target in sorted(entry_points().items()):
        package = _package(target)
        if package not in found and _has(package, module):
            found[package] = name
    return tuple(sorted(found.values()))


def load_module(agent: str, module: str) -> Any:
    """Imports a module of the agent's package; None if there is none."""
    target = entry_points().get(agent)
    package = _package(target) if target else ""
    return import_module(f"{package}.{module}") if package and _has(package, module) else None


def _package(target: str) -> str:
    """The package of `PACKAGE.MODULE:ATTRIBUTE`; "" for a plug-in that is a single module."""
    return target.partition(":")[0].rpartition(".")[0]


@cache
def _has(package: str, module: str) -> bool:
    from importlib.util import find_spec  # not needed to start an agent

    try:
        spec = find_spec(package) if package else None
    except (ImportError, ValueError):
        return False  # one broken package must not break all agents
    folders = (spec.submodule_search_locations if spec else None) or ()
    return any((Path(folder) / f"{module}.py").is_file() for folder in folders)


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""  # one broken package must not break all agents


def _points(text: str) -> list[tuple[str, str]]:
    section, found = "", []
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        elif section == GROUP and "=" in line:
            name, _, target = line.partition("=")
            found.append((name.strip(), target.split("[")[0].strip()))
    return found
