"""What lies at the topmost protected names before an agent starts, sooner than its session is."""

from __future__ import annotations

import os

from tillerman.workspace.protection.mount_plan import outer_git_folders, skipped
from tillerman.workspace.protection.protected_names import look
from tillerman.workspace.protection.protected_state import State

_TOP = 3  # the workspace, its `.git` and its `.github`


def early_looks(cwd: str) -> dict[str, State]:
    """Of the workspace, and of a repository around it. The session looks at deeper folders."""
    roles = {cwd: "work"} | dict.fromkeys(outer_git_folders(cwd), "git")
    left_out = skipped(cwd)
    found = {}
    for path, role in roles.items():
        try:
            root = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue  # the session will say so
        try:
            found[path] = look(root, baseline=True, role=role, skipped=left_out, most=_TOP)
        finally:
            os.close(root)
    return found
