"""The agents bridle can drive, found by their `bridle.agents` entry points."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from bridle.core.agent import Agent
from bridle.core.errors import AgentUnknown

GROUP = "bridle.agents"


def available() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP))}


def load(name: str) -> Agent:
    points = available()
    if name not in points:
        raise AgentUnknown(name, list(points))
    agent: Agent = points[name].load()
    return agent
