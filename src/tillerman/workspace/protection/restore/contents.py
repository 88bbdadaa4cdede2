"""Reads all files at a name of an open folder without following links."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from tillerman.workspace.protection.git.known_commits import Files, git_mode
from tillerman.workspace.protection.protected_names import KEPT_FILE, open_folder, read_file
from tillerman.workspace.protection.restore.accepted import MOST_IN_DIGEST, digest, folder_digest

_MOST_FILES = 1_000


def files_at(folder: int, name: str, path: str) -> Files | None:
    """Returns the files as git would store them, by path below `path`; empty if none exists.

    None if there are too many, or if one is not a type that git can store.
    """
    found: Files = {}
    todo = [""]
    try:
        while todo:
            inner = todo.pop()
            with suppress(FileNotFoundError):  # removed meanwhile
                todo += _add_entry(folder, f"{name}{inner}", path + inner, inner, found)
            if len(found) + len(todo) > _MOST_FILES:
                return None
    except OSError:
        return None
    return found


def _add_entry(root: int, where: str, path: str, inner: str, found: Files) -> list[str]:
    """Returns the entries of a folder; adds any other file to `found`."""
    parent, _, name = where.rpartition("/")
    folder = open_folder(root, parent)
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return [f"{inner}/{each}" for each in _listed(folder, name)]
        if stat.S_ISLNK(status.st_mode):
            target = os.fsencode(os.readlink(name, dir_fd=folder))
            found[path] = (git_mode("link", 0), target)
            return []
        content = read_file(folder, name, KEPT_FILE)
        if content is None:
            raise OSError("no file of git's kind")
        found[path] = (git_mode("file", status.st_mode), content)
        return []
    finally:
        os.close(folder)


def _listed(folder: int, name: str) -> list[str]:
    opened = open_folder(folder, name)
    try:
        return os.listdir(opened)  # noqa: PTH208
    finally:
        os.close(opened)


def is_empty(folder: int, name: str) -> bool:
    """Returns whether it is an empty folder or an empty file."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            return not _listed(folder, name)
        return stat.S_ISREG(status.st_mode) and status.st_size == 0
    except OSError:
        return False


def tree_digest(folder: int, name: str, room: int = MOST_IN_DIGEST) -> str:
    """Returns the digest of the first names in each folder; fewer in deeper folders."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return digest("link", os.fsencode(os.readlink(name, dir_fd=folder)))
    if not stat.S_ISDIR(status.st_mode):
        return digest("file", read_file(folder, name, KEPT_FILE) or b"")
    inner = open_folder(folder, name)
    try:
        listed = sorted(os.listdir(inner))[:room]  # noqa: PTH208
        return folder_digest((one, tree_digest(inner, one, room // 2)) for one in listed)
    finally:
        os.close(inner)
