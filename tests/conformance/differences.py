"""Reads the known differences between agents."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

_TABLES: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text("utf-8")
)


def cases(agent: str) -> dict[str, str]:
    """By case: what the agent does instead."""
    return dict(_TABLES.get(agent, {}).get("cases", {}))


def left_out(agent: str) -> dict[str, str]:
    """By case: why it is not run."""
    return dict(_TABLES.get(agent, {}).get("left_out", {}))


def story(agent: str) -> dict[str, list[str]]:
    """By act: how it looks in the transcript."""
    return dict(_TABLES.get(agent, {}).get("story", {}))


def gate(agent: str) -> dict[str, str]:
    """By line of the gate test: what the agent does instead."""
    return dict(_TABLES.get(agent, {}).get("gate", {}))
