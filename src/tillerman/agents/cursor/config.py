"""Reads the user's cli-config.json, and makes the copy of it that a turn uses.

The CLI writes the model of every run into that file as the user's choice. So it gets a copy to
write to, which also denies what the session's preset does not allow.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tillerman.agents.cursor.withheld_tools import WithheldTools
from tillerman.agents.decoding.fields import parse, strings, table

FILE = "cli-config.json"


def home(variable: Callable[[str], str | None]) -> Path:
    """The folder in which the CLI stores its data."""
    return Path(variable("CURSOR_DATA_DIR") or Path(variable("HOME") or "/") / ".cursor")


def read(variable: Callable[[str], str | None]) -> bytes:
    """The config that the CLI would read in this environment; empty if there is none."""
    for folder in _folders(variable):
        try:
            return (folder / FILE).read_bytes()
        except OSError:
            continue
    return b""


def copied(own: bytes, approval: WithheldTools) -> bytes:
    """The user's config with additional denials; none is removed."""
    found = parse(own) if own else {}
    config = dict(found) if isinstance(found, dict) else {}
    permissions = table(config, "permissions")
    denied = [*strings(permissions, "deny"), *approval.rules]
    config.setdefault("version", 1)
    config.setdefault("editor", {"vimMode": False})
    config["permissions"] = {
        **permissions,
        "allow": strings(permissions, "allow"),
        "deny": list(dict.fromkeys(denied)),
    }
    if not approval.commands:
        config["approvalMode"] = "allowlist"
    return json.dumps(config, ensure_ascii=False).encode("utf-8", "replace")


def _folders(variable: Callable[[str], str | None]) -> list[Path]:
    if folder := variable("CURSOR_CONFIG_DIR"):
        return [Path(folder)]
    found = [Path(variable("HOME") or "/") / ".cursor"]
    if folder := variable("XDG_CONFIG_HOME"):
        found.insert(0, Path(folder) / "cursor")
    return found
