"""Finds the git folders of a work tree without running git."""

# pathlib would cost every start some milliseconds
# ruff: noqa: PTH112, PTH113, PTH114, PTH118, PTH120, PTH123

from __future__ import annotations

import os


def outer_git_folders(root: str) -> tuple[str, ...]:
    """Returns the git folder of the repository around a workspace without its own `.git` folder."""
    own = git_folder(root)
    if own == f"{root}/.git":
        return ()
    folders = git_folders(root)
    return (folders[1],) if folders else ()


def git_folders(root: str) -> tuple[str, str] | None:
    """Returns the git folders of a work tree: the one with its index, and the one with all refs."""
    folder, git = root, git_folder(root)
    while git is None and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
        git = git_folder(folder)
    if git is None or not _is_repository(common := _common(git)):
        return None
    return git, common


def _is_repository(folder: str) -> bool:
    """Returns whether it is a repository: a `.git` file can name any folder."""
    return os.path.isfile(f"{folder}/HEAD") and os.access(folder, os.R_OK | os.X_OK)


def git_folder(root: str) -> str | None:
    """Returns the folder with the index of this work tree; None if it has no repository."""
    path = f"{root}/.git"
    if is_folder(path):
        return path
    try:
        with open(path, "rb") as file:
            head, _, target = file.read(4096).partition(b":")
    except OSError:
        return None
    if head != b"gitdir" or b"\0" in target:
        return None
    return os.path.normpath(os.path.join(root, os.fsdecode(target.strip())))


def _common(git: str) -> str:
    """Returns the folder with config and hooks, which worktrees share."""
    try:
        with open(f"{git}/commondir", "rb") as file:
            target = os.fsdecode(file.read(4096).strip())
    except OSError:
        return git
    if "\0" in target:
        return git
    return os.path.normpath(os.path.join(git, target))


def is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)
