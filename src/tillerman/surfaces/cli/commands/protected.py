"""`tillerman protected`: lists reverted changes of protected names and restores them."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from tillerman.core.errors import UsageError
from tillerman.core.terminal_sanitizer import clean
from tillerman.paths import find_paths
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, width
from tillerman.surfaces.rendering.ansi_style import Style
from tillerman.surfaces.rendering.formatting import one_line
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.protection.restore.quarantine import CONTENT, Item, items

_HEAD = ("CHANGE", "SESSION", "WHEN", "ACT", "PATH", "WORKSPACE")


def list_undone(options: Namespace) -> int:
    found = [
        (folder, item)
        for folder, item in _found()
        if (options.all or not item.taken_back)
        and (not options.session or folder.parent.name.startswith(options.session))
    ]
    if options.json:
        emit_json([_row(folder, item) for folder, item in found])
        return 0
    if not found:
        emit("no changes of protected names were undone")
        return 0
    style = Style(colored(options, sys.stdout))
    rows = [
        (
            item.id,
            folder.parent.name,
            item.at,
            "settings" if item.settings else item.act,
            one_line(clean(shown(item.path))),
            one_line(clean(shown(item.workspace))),
        )
        for folder, item in found
    ]
    emit(table(rows, _HEAD, style, width()))
    emit("`tillerman protected take-back CHANGE` reapplies one")
    return 0


def take_back(options: Namespace) -> int:
    from tillerman.workspace.protection.restore import take_back

    matching = [(folder, item) for folder, item in _found() if item.id.startswith(options.change)]
    if not matching:
        raise UsageError(
            f"no change matches {options.change!r}",
            hint="`tillerman protected list --all` lists them",
        )
    if len(matching) > 1:
        raise UsageError(f"{options.change!r} matches several changes", hint="use more characters")
    folder, item = matching[0]
    target = take_back.take_back(folder, item, find_paths().accepted)
    if options.json:
        emit_json({**_row(folder, item), "taken_back": True})
    else:
        emit(f"{clean(shown(str(target)))} has the undone change again")
    return 0


def _found() -> list[tuple[Path, Item]]:
    """Quarantined changes, newest first."""
    return list(reversed(list(items(find_paths().quarantine))))


def _row(folder: Path, item: Item) -> dict[str, object]:
    return {
        "id": item.id,
        "session": folder.parent.name,
        "at": item.at,
        "act": item.act,
        "path": shown(item.path),
        "workspace": shown(item.workspace),
        "settings": [key for key, _ in item.settings],
        "content": shown(str(folder / CONTENT)),
        "taken_back": item.taken_back,
    }
