"""Files that a patch in the format of `apply_patch` names."""

from __future__ import annotations

import re
from typing import NamedTuple

# Agents differ in the blanks that they accept around a header.
_HEADER = re.compile(
    r"(?im)^\s*\*\*\*\s*(?:(add|create|update|delete|remove)\s+file|(move|rename)\s+to)\s*:"
    r"[^\S\n]*(\S[^\n]*?)\s*$"
)
_VERBS = {"create": "add", "remove": "delete", "rename": "move"}


class PatchedFile(NamedTuple):
    change: str  # add, update, delete, move
    path: str


def patched_files(patch: str) -> tuple[PatchedFile, ...]:
    found = []
    for one, other, path in _HEADER.findall(patch) if "***" in patch else ():
        verb = (one or other).lower()
        found.append(PatchedFile(_VERBS.get(verb, verb), path))
    return tuple(found)
