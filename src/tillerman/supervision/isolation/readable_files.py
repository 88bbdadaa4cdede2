"""Decides which files outside the workspace a command at a level could read.

Used by tools that read files on behalf of a command.
"""

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
    """Like `closed_to`, but raises IsolationUnavailable if no command can run at this level.

    A file is not read for a command that the machine cannot isolate. Call it from a thread.
    """
    check_level(level, workspace)
    return closed_to(level, workspace, path, status)


def closed_to(level: str, workspace: Path, path: str, status: os.stat_result) -> str:
    """Returns why a command at this level could not read the file, or "" if it could.

    `path` is absolute and free of links; `status` is that of the opened file. tillerman's own
    files, which hold tokens and transcripts, are closed at every level.
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
        return "commands at isolation high have no root privileges"
    return ""


def _is_open(path: str, workspace: Path) -> bool:
    if any(holds(str(one), path) for one in roots_own()):
        return False
    if any(holds(one, path) for one in SYSTEM):
        return True
    tools = toolchains(Path.home(), os.environ.get("PATH", os.defpath), workspace.resolve())
    return any(holds(os.path.realpath(one), path) for one in tools)


def _is_readable(status: os.stat_result) -> bool:
    """Checks owner and mode bits only."""
    bit = 0o400 if status.st_uid == os.geteuid() else 0o004
    return bool(status.st_mode & bit)
