"""Builds the rules that make Qwen Code ask before every call, merged with system settings.

An ask rule overrides every allow rule, and is overridden by deny rules, from any source. Ours are
in `ask_policy.json`, used in place of the system settings; if those exist, both are merged. Its
subagents are denied: they read, write and fetch without asking, regardless of the rules.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tillerman.agents.commands.json_files import read, settings
from tillerman.agents.decoding.fields import Table, at, strings, table
from tillerman.agents.qwen.launch import DEFAULTS, GATE, SETTINGS, Variable, home
from tillerman.core.errors import Unsupported

_SYSTEM = "/Library/Application Support/QwenCode" if sys.platform == "darwin" else "/etc/qwen-code"


def system_files(variable: Variable) -> Table:
    """Launch options, if the system settings are not only ours.

    The path of its defaults derives from that of its settings, and must be passed when that
    changes.
    """
    file = Path(variable(SETTINGS) or f"{_SYSTEM}/settings.json")
    defaults = Path(variable(DEFAULTS) or file.with_name("system-defaults.json"))
    options: Table = {}
    if file.exists():
        options[SETTINGS] = _with_ours(file)
    if defaults.exists():
        options[DEFAULTS] = str(defaults)
    return options


def refuse_other_deciders(variable: Variable, cwd: Path) -> None:
    """Rejects a permission hook, which would answer before us."""
    system = Path(variable(SETTINGS) or f"{_SYSTEM}/settings.json")
    for file in (home(variable) / "settings.json", cwd / ".qwen" / "settings.json", system):
        if at(settings(file), "hooks", "PermissionRequest"):
            raise Unsupported(
                "qwen",
                f"a hook that answers permission requests itself: {file}",
                hint="remove `hooks.PermissionRequest` from it: tillerman's policy answers them",
            )


def _with_ours(file: Path) -> str:
    try:
        theirs = read(file.read_bytes())
    except OSError as error:
        theirs = str(error)
    if isinstance(theirs, str):
        raise Unsupported(
            "qwen",
            f"system settings that cannot be read: {file}: {theirs}",
            hint="fix the file: tillerman adds its rules to it",
        )
    rules, ours = (table(one, "permissions") for one in (theirs, settings(Path(GATE))))
    both = {key: list(dict.fromkeys(strings(rules, key) + strings(ours, key))) for key in ours}
    return json.dumps(theirs | {"permissions": rules | both})
