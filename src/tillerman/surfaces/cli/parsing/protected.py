"""Argument definitions of `protected`."""

from __future__ import annotations

from typing import Any

from tillerman.surfaces.cli.parsing.arguments import command, folder, json_option, name


def protected(commands: Any) -> None:
    group = folder(commands, "protected", "list and restore undone changes of protected names")
    listed = command(group, "list", "protected:list_undone", "what was undone, newest first")
    listed.add_argument("--all", action="store_true", help="what was taken back, too")
    listed.add_argument("--session", type=name, metavar="ID", help="in this session")
    json_option(listed)
    taken = command(group, "take-back", "protected:take_back", "bring such a change back")
    taken.add_argument("change", type=name, metavar="ID", help="its id, or the beginning of it")
    json_option(taken)
