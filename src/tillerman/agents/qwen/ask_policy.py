"""The rules by which Qwen Code asks before every call, beside what an administrator has set.

A rule that asks is above every one that allows, and below those that deny, whoever wrote them. Ours
are in `gate.json`, in the place of the system's settings; where there are such, both go in. Its
subagents are denied: they read, write and fetch unasked, whatever the rules say.
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
    """Options for the launch, where the system's settings are not just ours.

    The place of its defaults goes by that of its settings, and must be told when that moves.
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
    """A hook that permits would be heard before us, and nobody would be asked."""
    system = Path(variable(SETTINGS) or f"{_SYSTEM}/settings.json")
    for file in (home(variable) / "settings.json", cwd / ".qwen" / "settings.json", system):
        if at(settings(file), "hooks", "PermissionRequest"):
            raise Unsupported(
                "qwen",
                f"a hook that answers permission requests by itself: {file}",
                hint="take `hooks.PermissionRequest` out of it: tillerman's policy answers them",
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
            hint="mend the file: tillerman adds its rules to it, and hides none",
        )
    rules, ours = (table(one, "permissions") for one in (theirs, settings(Path(GATE))))
    both = {key: list(dict.fromkeys(strings(rules, key) + strings(ours, key))) for key in ours}
    return json.dumps(theirs | {"permissions": rules | both})
