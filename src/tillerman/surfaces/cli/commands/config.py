"""`tillerman config` and `tillerman trust`: settings, their sources, and trusted projects."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.config import config_commands, find_paths, load
from tillerman.config import project_trust as trusting
from tillerman.core.errors import ConfigError, UsageError
from tillerman.core.terminal_sanitizer import clean
from tillerman.surfaces.cli.views.output import (
    colored,
    confirmed,
    emit,
    emit_json,
    table,
    warn,
    width,
)
from tillerman.surfaces.rendering.ansi_style import Style

if TYPE_CHECKING:
    from tillerman.config import Config
    from tillerman.config.config_commands import ConfigRow
    from tillerman.config.project_trust import ProjectFolder

HIDDEN = "(hidden: the file has it)"
SHOWN_BYTES = 8_192  # shown of each file before trusting


def show(options: Namespace) -> int:
    config = load(Path.cwd())
    rows = [_without_secret(row) for row in config_commands.show(config)]
    if options.json:
        emit_json([row._asdict() | {"source": row.source} for row in rows])
    else:
        cells = [(row.key, row.shown, str(row.source)) for row in rows]
        style = Style(colored(options, sys.stdout))
        emit(table(cells, ("KEY", "VALUE", "FROM"), style, width()))
    _warn_withheld(config)
    return 0


def _without_secret(row: ConfigRow) -> ConfigRow:
    """An agent's own option may be an API key: output may be shared, or stored in a log."""
    from tillerman.supervision.environment import is_credential

    *tables, name = row.key.split(".")
    if tables[:1] != ["agents"] or not is_credential(name) or not isinstance(row.value, str):
        return row
    return row._replace(value=HIDDEN, shown=HIDDEN)


def get(options: Namespace) -> int:
    config = load(Path.cwd())
    row = _without_secret(config_commands.get(config, options.key))
    if options.json:
        emit_json(row._asdict())
    else:
        emit(clean(row.shown))
    _warn_withheld(config, options.key)
    return 0


def put(options: Namespace) -> int:
    project = (trusting.find_project(Path.cwd()) or Path.cwd()) if options.project else None
    emit(str(config_commands.set_value(find_paths(), options.key, options.value, project=project)))
    return 0


def path(options: Namespace) -> int:
    files = config_commands.files(find_paths(), Path.cwd())
    if options.json:
        emit_json([file._asdict() | {"path": str(file.path)} for file in files])
        return 0
    for file in files:
        notes = [file.layer, file.trust or "", "" if file.exists else "missing"]
        emit(f"{clean(str(file.path))}  ({', '.join(filter(None, notes))})")
    return 0


def trust(options: Namespace) -> int:
    if not options.folder.is_dir():
        raise UsageError(
            f"{options.folder}: no such folder", hint="create it, or give another folder"
        )
    paths = find_paths()
    project = trusting.find_project(options.folder) or options.folder
    if options.revoke:
        if not trusting.untrust(paths, project):
            raise ConfigError(f"{project} was not trusted", hint="there is nothing to revoke")
        emit(f"{clean(str(project))} is no longer trusted")
        return 0
    folder = trusting.read_folder(project)
    if folder is None:
        raise ConfigError(
            f"{project} has no .tillerman/ to trust",
            hint="trust is for the settings in .tillerman/: there are none",
        )
    if trusting.trust_state(paths, folder) == "trusted":
        emit(f"{clean(str(folder.path))} is already trusted")
        return 0
    if not options.yes:
        _present(folder)
        if not confirmed(f"trust {folder.path} with its current content?"):
            raise UsageError("nothing was trusted", hint="--yes trusts without confirmation")
    trusting.trust(paths, folder)
    emit(f"{clean(str(folder.path))} is trusted with its current content")
    return 0


def _present(folder: ProjectFolder) -> None:
    for name, content in folder.files.items():
        emit(f"── {clean(name)}", clean(content[:SHOWN_BYTES].decode("utf-8", "replace")).rstrip())
        if len(content) > SHOWN_BYTES:
            emit(f"… {len(content) - SHOWN_BYTES} more bytes")
    for name, what in folder.others.items():
        if "\0" not in name:
            emit(f"── {clean(name)}: {clean(what)}")


def _warn_withheld(config: Config, key: str | None = None) -> None:
    for held in config.withheld:
        if key in (None, held.key):
            warn(f"{held.key} of this project is ignored: {held.why}", hint="`tillerman trust`")
