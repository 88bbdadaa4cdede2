"""Scans the topmost protected files before an agent and its session start."""

from __future__ import annotations

import os

from tillerman.workspace.protection.git.folders import outer_git_folders
from tillerman.workspace.protection.mount_plan import skipped
from tillerman.workspace.protection.protected_names import scan
from tillerman.workspace.protection.protected_state import State

_TOP = 3  # the workspace, its `.git` and its `.github`


def early_scans(cwd: str) -> dict[str, State]:
    """Scans the workspace and a repository around it. The session scans deeper folders."""
    roles = {cwd: "work"} | dict.fromkeys(outer_git_folders(cwd), "git")
    left_out = skipped(cwd)
    found = {}
    for path, role in roles.items():
        try:
            root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue  # the session will report it
        try:
            found[path] = scan(root, baseline=True, role=role, skipped=left_out, most=_TOP)
        finally:
            os.close(root)
    return found
