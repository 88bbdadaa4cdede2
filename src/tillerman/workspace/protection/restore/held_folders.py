"""Open descriptors of the workspace, its parent and its `.git`, to undo renames.

A renamed folder is found by its descriptor and gets its name back.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tillerman.workspace.files.file_names import shown
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.protection.protected_names import open_folder
from tillerman.workspace.protection.protected_state import parent_of
from tillerman.workspace.protection.restore.placement import status_of
from tillerman.workspace.protection.restore.quarantine import Quarantine
from tillerman.workspace.protection.restore.undone import Undone


class HeldFolders:
    """The open folders of one workspace. Use it from one thread at a time."""

    def __init__(self, root: Path, quarantine: Quarantine) -> None:
        self._path = root.absolute()
        self._quarantine = quarantine
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            self.root = os.open(self._path, flags)
            self._parent = os.open(self._path.parent, flags)
        except OSError as error:
            raise Refused(f"the workspace {root} cannot be opened: {error.strerror}") from None
        self._git = -1  # the folder itself, wherever it is moved to
        self._root_is_lost = False  # and this was reported

    def open_git(self) -> None:
        """Opens the current `.git` as the one to restore."""
        self._root_is_lost = False
        self._close_git()
        with suppress(OSError):
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._git = os.open(".git", flags, dir_fd=self.root)

    def close(self) -> None:
        self._close_git()
        for held in (self.root, self._parent):
            if held >= 0:
                os.close(held)
        self.root = self._parent = -1

    def _close_git(self) -> None:
        if self._git >= 0:
            os.close(self._git)
            self._git = -1

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """Opens a folder component by component from the workspace."""
        folder = open_folder(self.root, path)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def held(self, path: str) -> Iterator[int]:
        """Opens the name itself: a link is not followed."""
        folder_path, name = parent_of(path)
        with self.folder(folder_path) as folder:
            held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                yield held
            finally:
                os.close(held)

    def scratch(self, folder: int) -> int:
        """Returns the folder for drafts: `.git`, where `git status` does not show them."""
        with suppress(OSError):
            status = os.fstat(self._git) if self._git >= 0 else None
            if status and status.st_nlink and status.st_dev == os.fstat(folder).st_dev:
                return self._git
        return folder

    def in_place(self) -> bool:
        """Returns whether the workspace and its repository still have their names."""
        held = [(self._parent, self._path.name, self.root)]
        if self._git >= 0:
            held.append((self.root, ".git", self._git))
        for folder, name, ours in held:
            now = status_of(folder, name)
            if now is None or not os.path.samestat(now, os.fstat(ours)):
                return False
        return True

    def restore_root(self) -> list[Undone]:
        """Renames the workspace back, if it is still in its parent folder."""
        name, ours = self._path.name, os.fstat(self.root)
        now = status_of(self._parent, name)
        if now and os.path.samestat(now, ours):
            return []
        with suppress(OSError):
            if os.path.samestat(self._path.stat(), ours):
                return []  # the user's path is a link to it
        called = shown(str(self._path))
        moved = _name_in(self._parent, ours)
        if moved is None:
            if self._root_is_lost:
                return []
            self._root_is_lost = True
            why = "the workspace was moved"
            return [Undone(called, "moved", False, "", why)]
        try:
            kept = self._quarantine.move_in(self._parent, name, ".", "moved") if now else ""
            os.rename(moved, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except OSError as error:
            return [Undone(called, "moved", False, "", error.strerror or str(error))]
        return [Undone(called, "moved", True, kept)]

    def restore_git(self) -> list[Undone]:
        """Moves `.git` back: a repository has more than the stored copies."""
        if self._git < 0:
            return []
        ours, now = os.fstat(self._git), status_of(self.root, ".git")
        if now and os.path.samestat(now, ours):
            return []
        if not ours.st_nlink:  # removed: files that name commands are written to a new one
            if now:
                self.open_git()
            return []
        here = f"{Path(f'/proc/self/fd/{self.root}').readlink()}/"
        there = str(Path(f"/proc/self/fd/{self._git}").readlink())
        if not there.startswith(here):
            return []  # not reachable
        folder_path, name = parent_of(there.removeprefix(here))
        try:
            with self.folder(folder_path) as folder:
                found = status_of(folder, name)
                if found is None or not os.path.samestat(found, ours):
                    return []
                kept = self._quarantine.move_in(self.root, ".git", ".git", "moved") if now else ""
                os.rename(name, ".git", src_dir_fd=folder, dst_dir_fd=self.root)
        except OSError:
            return []
        return [Undone(".git", "moved", True, kept)]


def _name_in(folder: int, status: os.stat_result) -> str | None:
    """Returns the current name of a folder in its former parent."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = status_of(folder, entry.name) if entry.inode() == status.st_ino else None
            if found and os.path.samestat(found, status):
                return entry.name
    return None
