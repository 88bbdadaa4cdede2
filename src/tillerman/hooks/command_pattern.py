"""Recognizes tillerman's hook commands by their form, independent of the paths in them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

from tillerman.core.json_fields import Table

_SPAWNED = re.compile(r'spawn\("/bin/sh", \["-c", ("(?:[^"\\]|\\.)*")\]')


def is_ours(entry: object, agent: str, event: str) -> bool:
    """Whether the entry holds only `tillerman hook` commands for this agent and event."""
    commands = list(_commands(entry)) if isinstance(entry, dict) else []
    return bool(commands) and all(_is_command(one, agent, event) for one in commands)


def is_our_code(code: bytes, agent: str) -> bool:
    """Whether the plugin was written by tillerman, possibly for another project path."""
    text = code.decode(errors="replace")
    found = _SPAWNED.search(text) if text.startswith("// Written by tillerman.") else None
    try:
        return found is not None and _is_command(json.loads(found[1]), agent, "")
    except ValueError:
        return False


def _commands(entry: Table) -> Iterator[object]:
    yield from (entry[key] for key in ("command", "bash") if key in entry)
    inside = entry.get("hooks")
    for one in inside if isinstance(inside, list) else ():
        yield from _commands(one) if isinstance(one, dict) else (None,)


def _is_command(command: object, agent: str, event: str) -> bool:
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:
        return False
    if words[-3:] != ["||", "exit", "2"] or words[1:2] not in (["-I"], ["-P"]):
        return False
    middle = words[2:-3]
    if middle[:4] != ["-m", "tillerman", "hook", agent] or (event and middle[4:5] != [event]):
        return False
    return len(middle) == 5 or (len(middle) == 7 and middle[5] == "--project")
