"""Which files of the machine a command at some level could read, for tools that read for it."""

from __future__ import annotations

import os
from pathlib import Path

from tillerman.paths import find_paths
from tillerman.supervision.isolation.confinement import check_level
from tillerman.supervision.isolation.readable_system_paths import (
    SYSTEM,
    holds,
    roots_own,
    toolchains,
)


def closed_here(level: str, workspace: Path, path: str, status: os.stat_result) -> str:
    """As `closed_to`; IsolationUnavailable where no command can run at this level at all: what
    the machine cannot keep a command from is not read for one either. Call it from a thread."""
    check_level(level, workspace)
    return closed_to(level, workspace, path, status)


def closed_to(level: str, workspace: Path, path: str, status: os.stat_result) -> str:
    """Why a command at this level could not read the file, "" where it could.

    `path` is absolute and goes through no link; `status` is that of the file as it was opened.
    tillerman's own files, which hold tokens and what was said, are closed at every level.
    """
    own = find_paths()
    folders = (own.config, own.state, own.cache, own.sockets)
    is_own = any(holds(os.path.realpath(folder), path) for folder in folders)
    if is_own and not holds(os.path.realpath(own.exports), path):
        return "it is one of tillerman's own files"
    if level == "basic" or holds(str(workspace.resolve()), path):
        return ""
    if not _is_open(path, workspace):
        return f"commands at isolation {level} cannot read it"
    if level == "high" and not _is_readable(status):
        return "commands at isolation high have no rights of root"
    return ""


def _is_open(path: str, workspace: Path) -> bool:
    if any(holds(str(one), path) for one in roots_own()):
        return False
    if any(holds(one, path) for one in SYSTEM):
        return True
    tools = toolchains(Path.home(), os.environ.get("PATH", os.defpath), workspace.resolve())
    return any(holds(os.path.realpath(one), path) for one in tools)


def _is_readable(status: os.stat_result) -> bool:
    """By owner and mode alone."""
    bit = 0o400 if status.st_uid == os.geteuid() else 0o004
    return bool(status.st_mode & bit)
