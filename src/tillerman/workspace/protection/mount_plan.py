"""Plans which protected paths are mounted read-only; decided before the agent starts.

Only existing paths are mounted, so nothing is ever created in the workspace. Paths that git tracks
are not mounted, since a checkout would silently leave the old file; they are watched and restored
instead.
"""

# pathlib would cost every start some milliseconds
# ruff: noqa: PTH111

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tillerman.core import agent_files
from tillerman.core.permission.protected_names import is_protected, plain
from tillerman.workspace.protection.git.folders import git_folder, is_folder, outer_git_folders
from tillerman.workspace.protection.git.index import tracked

# Folders in the home where agents store their own state, which they have to write.
AGENTS_OWN = agent_files.HOME | frozenset({
    ".agents", ".amp", ".cline", ".continue", ".junie", ".kiro", ".roo", ".tillerman",
    ".windsurf", ".zed",
})  # fmt: skip

# Files that an agent creates in its own folder of a project, and needs to start.
CREATED = agent_files.CREATED


class Mountable(NamedTuple):
    """Paths to mount, relative to one folder."""

    folder: str
    pinned: tuple[str, ...] = ()
    readonly: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()

    @property
    def tree(self) -> tuple[bytes, list[bytes], list[bytes], list[bytes]]:
        """Converts it to the format of `supervision.warden.mounts`."""
        lists = [[os.fsencode(path) for path in paths] for paths in self[1:]]
        return os.fsencode(self.folder), lists[0], lists[1], lists[2]


def mountable(
    root: str,
    *,
    allowed: Callable[[str], bool] = lambda path: False,
    own: frozenset[str] | None = None,
) -> tuple[Mountable, ...]:
    """Plans the protected names of a workspace, and those of a repository around it.

    `allowed`: paths that a rule lets agents write. `own`: the `skipped` names, if known.
    """
    names = _protected(root, skipped(root) if own is None else own)
    git = git_folder(root)
    pinned: list[str] = []
    readonly: list[str] = []
    if ".git" in names and not allowed(".git"):
        if git == f"{root}/.git":
            pinned.append(".git")
            readonly += [".git/hooks"] if is_folder(f"{git}/hooks") else []
        else:
            readonly.append(".git")
    names = [name for name in names if name != ".git" and not allowed(name)]
    known = tracked(git, names) if git else set()
    if known is not None:
        for name in names:
            if name not in known:
                readonly += _without_created(root, name)
    found = [Mountable(root, tuple(pinned), tuple(readonly))]
    for outer in outer_git_folders(root):
        folder, name = os.path.split(outer)
        hooks = (f"{name}/hooks",) if is_folder(f"{outer}/hooks") else ()
        found.append(Mountable(folder, (name,), hooks))
    return tuple(found)


def _without_created(root: str, name: str) -> list[str]:
    """Returns what to mount of a name: its entries, if an agent has yet to create a file there."""
    missing = any(
        path.startswith(f"{name}/") and not os.path.lexists(f"{root}/{path}") for path in CREATED
    )
    if not missing or not is_folder(f"{root}/{name}"):
        return [name]
    with os.scandir(f"{root}/{name}") as entries:
        return sorted(f"{name}/{entry.name}" for entry in entries if not entry.is_symlink())


def skipped(root: str) -> frozenset[str]:
    """Returns protected names that are not watched: an agent's own state in the home folder."""
    home = os.path.realpath(os.path.expanduser("~"))
    real = os.path.realpath(root)
    if home != real and not home.startswith(f"{real.rstrip('/')}/"):
        return frozenset()
    inner = os.path.relpath(home, real)
    return frozenset(name if inner == "." else f"{inner}/{name}" for name in AGENTS_OWN)


def _protected(root: str, own: frozenset[str]) -> list[str]:
    try:
        with os.scandir(root) as entries:
            return sorted(
                entry.name
                for entry in entries
                if is_protected([plain(entry.name)])
                and not entry.is_symlink()
                and entry.name not in own
            )
    except OSError:
        return []


def with_hidden(plans: Iterable[Mountable], hidden: Iterable[str]) -> tuple[Mountable, ...]:
    """Adds absolute paths to hide to the plans of the folders that contain them."""
    found = list(plans)
    for path in hidden:
        for at, plan in enumerate(found):
            if path.startswith(f"{plan.folder}/"):
                inner = path[len(plan.folder) + 1 :]
                found[at] = plan._replace(hidden=(*plan.hidden, inner))
                break
        else:
            folder, name = os.path.split(path)
            found.append(Mountable(folder, hidden=(name,)))
    return tuple(found)
