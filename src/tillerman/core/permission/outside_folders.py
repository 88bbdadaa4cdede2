"""Finds the folders outside the workspace in which a command may change any file."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from tillerman.core.permission.path_location import (
    WORKS_OUTSIDE,
    DecisionContext,
    PathLocation,
    spot_of,
)
from tillerman.core.permission.shell.parsed_script import (
    FileAccess,
    ParsedCommand,
    ParsedScript,
    is_open,
    shown,
)

_LEAD_AWAY = frozenset({"cd", "chdir", "pushd", "popd", "find", "gfind"})


def outside_folders(
    command: ParsedCommand, script: ParsedScript, context: DecisionContext
) -> tuple[PathLocation, ...]:
    starts_inside = context.base is None or context.base == context.cwd
    if not command.may_change_any or (
        starts_inside and not command.folders and command.directories == ("",)
    ):
        return ()
    found: dict[str, PathLocation] = {}
    for folder in command.places:
        for base in folder.directories:
            place = spot_of(replace(folder, directories=(base,)), context)
            told = shown(base or "an unknown folder") if folder.path == "." else place.told
            if "outside" in place.places or (
                "unnamed" in place.places and _may_lead_away(command, script, context)
            ):
                places = place.places | {WORKS_OUTSIDE}
                found[told] = replace(place, told=told, places=places)
    return tuple(found.values())


def _may_lead_away(command: ParsedCommand, script: ParsedScript, context: DecisionContext) -> bool:
    """Whether an unknown folder may be outside: something in the line that may lead to it is."""
    return any(
        places & ({"outside", "unnamed"} if leads else {"unnamed"})
        for leads, access in _accesses(command, script)
        for places in (spot_of(access, context).places,)
    )


def _accesses(command: ParsedCommand, script: ParsedScript) -> Iterator[tuple[bool, FileAccess]]:
    for one in script.commands:
        leads = one is command or is_open(one.words[0]) or one.words[0] in _LEAD_AWAY
        yield from ((leads, access) for access in one.accesses)
    yield from ((False, access) for access in script.redirections)
