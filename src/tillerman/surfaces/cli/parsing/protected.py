"""Argument definitions of `protected`."""

from __future__ import annotations

from typing import Any

from tillerman.surfaces.cli.parsing.arguments import command, folder, json_option, name


def protected(commands: Any) -> None:
    group = folder(commands, "protected", "list and reapply undone changes of protected names")
    listed = command(group, "list", "protected:list_undone", "list undone changes, newest first")
    listed.add_argument("--all", action="store_true", help="include reapplied changes")
    listed.add_argument("--session", type=name, metavar="ID", help="only this session")
    json_option(listed)
    taken = command(group, "take-back", "protected:take_back", "reapply an undone change")
    taken.add_argument("change", type=name, metavar="ID", help="change id, or its first characters")
    json_option(taken)
