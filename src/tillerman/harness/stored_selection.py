"""Agent, profile and options that a session is stored with, and how a resume restores them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tillerman.config import Config
from tillerman.core.errors import ConfigError
from tillerman.core.events import Notice
from tillerman.harness.agent_selection import AgentSelection
from tillerman.store.session_row import SessionRow


def stored_options(row: SessionRow) -> dict[str, Any]:
    """The session's stored options, valid until overridden."""
    names = ("approve", "accept_advisory", "workspace_tools")
    return {"mode": row.mode} | {name: row.settings.get(name) for name in names}


def settings_of(who: AgentSelection) -> dict[str, Any]:
    """The settings to store for a resume."""
    stored: dict[str, Any] = {}
    if who.profile:
        stored["profile"] = who.profile.name
        stored["tools"] = list(who.profile.tools)
    if len(who.names) > 1:
        stored["agents"] = list(who.names)
    return stored


def stored_selection(
    row: SessionRow, config: Config, project: Path
) -> tuple[AgentSelection, list[Notice]]:
    """Restores the agent selection of a stored session; a missing profile becomes a notice."""
    names = [str(name) for name in row.settings.get("agents", ())]
    names = names if row.agent in names else [row.agent]
    if not (name := row.settings.get("profile")):
        return AgentSelection(tuple(names)), []
    from tillerman.config.profiles import profile

    try:
        if found := profile(config.paths, project, str(name)):
            return AgentSelection(tuple(names), found), []
        why = "it no longer exists"
    except ConfigError as error:
        why = error.message
    text = f"the session continues without profile {name}: {why}"
    return AgentSelection(tuple(names)), [Notice(level="warning", kind="settings", text=text)]
