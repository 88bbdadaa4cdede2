"""Restores protected files to their known state and quarantines what replaced them.

Only what was decided on is removed: files are exchanged atomically, and one that has changed by
then gets its name back, for a new decision.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from contextlib import suppress
from pathlib import Path

from tillerman.workspace.files.file_names import shown
from tillerman.workspace.protection.git import config as git_config
from tillerman.workspace.protection.git.known_commits import Files
from tillerman.workspace.protection.protected_names import KEPT_FILE, read_file
from tillerman.workspace.protection.protected_state import PathNode, State, mark_of, parent_of
from tillerman.workspace.protection.restore.accepted import ABSENT, Accepted, digest, digest_of
from tillerman.workspace.protection.restore.contents import files_at, is_empty, tree_digest
from tillerman.workspace.protection.restore.file_flags import make_changeable
from tillerman.workspace.protection.restore.held_folders import HeldFolders
from tillerman.workspace.protection.restore.placement import (
    draft_name,
    exchange,
    rename_to_free_name,
    replace_content,
    set_folder_mode,
    status_of,
    write_draft,
)
from tillerman.workspace.protection.restore.quarantine import Act, Quarantine
from tillerman.workspace.protection.restore.undone import Undone, act_of

_TRIES = 3  # attempts to restore one name
_REPLACED = 5  # times that another program may replace a file while it is restored
_DISARMS = 20  # times that a config may change while it is read


class AcceptedMeanwhile(Exception):
    """The user took it back, or another session restored it, just now."""


class ChangedMeanwhile(Exception):
    """It is no longer what was decided on."""


class Restorer:
    """Restores files of one workspace. Use it from one thread at a time."""

    def __init__(
        self, root: Path, quarantine: Quarantine, accepted: Accepted | None = None
    ) -> None:
        self.folders = HeldFolders(root, quarantine)
        self._quarantine = quarantine
        self._accepted = accepted

    def accept(self) -> None:
        """Accepts the current state as correct."""
        if self._accepted and not self._accepted.since:
            self._accepted.since = time.time_ns()
        self.folders.open_git()

    def undo(self, path: str, before: State, after: State, expected: Files | None = None) -> Undone:
        """Undoes a change. `expected`: the files decided on, if they may change legitimately."""
        was, now = before.nodes.get(path), after.nodes.get(path)
        called, act = shown(path), act_of(was, now)
        # with more new files than are scanned
        flooded = bool(was and now and was.kind == "folder" and now.kind == "other")
        for _ in range(_TRIES):
            if (was is None or now is None or was.mode == now.mode) and self.is_accepted(path):
                raise AcceptedMeanwhile
            try:
                if was:
                    kept = self.restore(path, before, whole=flooded, expected=expected)
                else:
                    kept = self._remove(path, expected)
            except FileNotFoundError:
                why = "its folder no longer exists"
            except OSError as error:  # it may be something else by now
                why = error.strerror or str(error)
            else:
                if act == "deleted":
                    kept = kept or self._quarantine.note(path, act)
                return Undone(called, act, True, kept)
        return Undone(called, act, False, "", why)

    def restore(
        self, path: str, before: State, *, whole: bool = False, expected: Files | None = None
    ) -> str:
        """Restores a path. Returns where the replaced file is now, or "" if there was none.

        A folder may be replaced as a `whole`: its files are then restored one by one.
        """
        was = before.nodes[path]
        folder_path, name = parent_of(path)
        if (seen := before.folders.get(folder_path)) and seen.role != "work":
            self._make(folder_path)
        with self.folders.folder(folder_path) as folder:
            make_changeable(folder, name)
            kept = ""
            now = status_of(folder, name)
            if now and (whole or stat.S_ISDIR(now.st_mode) != (was.kind == "folder")):
                kept = self._move_to_quarantine(folder, name, path, "changed", expected)
            if was.kind == "folder":
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                set_folder_mode(folder, name, was)
                return kept
            if was.content is None or was.kind == "other":
                raise OSError("it was too large or unreadable, so there is no backup")
            placed = self._place(folder, name, path, was, None if kept else expected)
            return kept or placed

    def _remove(self, path: str, expected: Files | None) -> str:
        folder_path, name = parent_of(path)
        with self.folders.folder(folder_path) as folder:
            make_changeable(folder, name)
            try:
                return self._move_to_quarantine(folder, name, path, "created", expected)
            except FileNotFoundError:
                raise ChangedMeanwhile from None  # it was removed already

    # -- removing the replacement ------------------------------------------------------------------

    def _move_to_quarantine(
        self, folder: int, name: str, path: str, act: Act, expected: Files | None
    ) -> str:
        """Moves it to the quarantine, if it is what was decided on."""
        draft, scratch = draft_name(), self.folders.scratch(folder)
        if act == "created":
            self._accept(path, ABSENT)
        try:
            os.rename(name, draft, src_dir_fd=folder, dst_dir_fd=scratch)
        except FileNotFoundError:
            raise
        except OSError:  # another mount, or a folder without write permission
            scratch = folder
            os.rename(name, draft, src_dir_fd=folder, dst_dir_fd=scratch)
        try:
            self._check_expected(scratch, draft, path, expected)
            return self._quarantine.move_in(scratch, draft, path, act)
        except (AcceptedMeanwhile, ChangedMeanwhile, OSError):
            with suppress(OSError):  # unless the name is in use again
                rename_to_free_name(scratch, draft, folder, name)
            _unlink(scratch, draft)
            raise

    def _check_expected(self, folder: int, name: str, path: str, expected: Files | None) -> None:
        if self._accepted:
            with suppress(OSError):
                if self._accepted.has(path, tree_digest(folder, name)):
                    raise AcceptedMeanwhile
        if expected is not None and files_at(folder, name, path) != expected:
            raise ChangedMeanwhile

    # -- placing the known file --------------------------------------------------------------------

    def _place(
        self, folder: int, name: str, path: str, was: PathNode, expected: Files | None
    ) -> str:
        """Returns where the replaced file is now, or "" if it was the same, or there was none."""
        scratch = self.folders.scratch(folder)
        kept = ""
        for _ in range(_REPLACED):
            draft = draft_name()
            try:
                ours = write_draft(scratch, draft, was)
                kept = self._swap(scratch, draft, folder, name, path, was, expected) or kept
            except (AcceptedMeanwhile, ChangedMeanwhile, FileExistsError) as error:
                _unlink(scratch, draft)
                if isinstance(error, FileExistsError):
                    continue
                raise
            except OSError:
                _unlink(scratch, draft)
                if scratch == folder:
                    raise
                scratch = folder  # `.git` was just removed or moved, or is another file system
                continue
            now = status_of(folder, name)
            if now and mark_of(now)[:2] == mark_of(ours)[:2]:
                return kept
        raise OSError("another program keeps replacing it")

    def _swap(
        self,
        scratch: int,
        draft: str,
        folder: int,
        name: str,
        path: str,
        was: PathNode,
        expected: Files | None,
    ) -> str:
        """Gives the draft the name. Returns where the replaced file is now."""
        ours = status_of(scratch, draft)
        if status_of(folder, name) is None:
            if expected:
                raise ChangedMeanwhile
            self._accept(path, digest_of(was))
            rename_to_free_name(scratch, draft, folder, name)
            return ""
        self._accept(path, digest_of(was))
        try:
            swapped = exchange(scratch, draft, folder, name)
        except FileNotFoundError:
            raise FileExistsError from None  # it was removed meanwhile: retry
        if not swapped:
            kept = self._quarantine.copy(folder, name, path)
            os.rename(draft, name, src_dir_fd=scratch, dst_dir_fd=folder)
            return kept
        taken = status_of(scratch, draft)
        same = taken is not None and _is(scratch, draft, taken, was)
        try:
            if not same:
                self._check_expected(scratch, draft, path, expected)
        except (AcceptedMeanwhile, ChangedMeanwhile):
            self._swap_back(scratch, draft, folder, name, ours)
            raise
        if not same:
            with suppress(OSError):
                return self._quarantine.move_in(scratch, draft, path, "changed")
        _unlink(scratch, draft)
        return ""

    def _swap_back(
        self, scratch: int, draft: str, folder: int, name: str, ours: os.stat_result | None
    ) -> None:
        """Exchanges until the draft is ours again: others may replace the file at the same time."""
        for _ in range(_REPLACED):
            try:
                exchange(scratch, draft, folder, name)
            except FileNotFoundError:  # it was removed
                return
            now = status_of(scratch, draft)
            if now and ours and os.path.samestat(now, ours):
                return

    # -- git configs -------------------------------------------------------------------------------

    def disarm(self, path: str, known: PathNode | None) -> tuple[Undone | None, bytes | None]:
        """Removes new program settings from a git config; returns the change and the content.

        The files are exchanged, so that what git wrote meanwhile is checked again and not lost.
        """

        base = (known and known.content) or b""
        folder_path, name = parent_of(path)
        own = folder_path if folder_path.startswith(".git/modules/") else ""
        removed: dict[tuple[str, str | None], None] = {}
        kept = ""
        with self.folders.folder(folder_path) as folder:
            for _ in range(_DISARMS):
                now = read_file(folder, name, KEPT_FILE)
                if now is None:
                    raise OSError("it cannot be read as a file")
                clean = git_config.disarm(now, base, own_folder=own)
                if not clean.undone:
                    break
                removed |= dict.fromkeys(_added(now, clean.content))
                kept = kept or self._quarantine.copy(folder, name, path, "changed", list(removed))
                self._accept(path, digest("file", clean.content))
                replace_content(folder, name, clean.content, now, known)
            else:
                raise OSError("another program keeps replacing it")
        if not removed and not kept:
            return None, now
        keys = tuple(dict.fromkeys(key for key, _ in removed)) or ("settings",)
        return Undone(shown(path), "changed", True, kept, settings=keys), now

    # -- current content ---------------------------------------------------------------------------

    def is_empty(self, path: str) -> bool:
        """Returns whether it is an empty folder or an empty file."""
        folder_path, name = parent_of(path)
        with suppress(OSError), self.folders.folder(folder_path) as folder:
            return is_empty(folder, name)
        return False

    def files_at(self, path: str) -> Files | None:
        """Returns all files at a path; None if too many, or of a type that git cannot store."""
        folder_path, name = parent_of(path)
        try:
            with self.folders.folder(folder_path) as folder:
                return files_at(folder, name, path)
        except FileNotFoundError:
            return {}
        except OSError:
            return None

    def is_accepted(self, path: str) -> bool:
        """Returns whether the user took it back, or another session restored it."""
        return self._accepted is not None and self.accepts(path, self._digest_at(path))

    def accepts(self, path: str, state: str) -> bool:
        return self._accepted is not None and self._accepted.has(path, state)

    def _digest_at(self, path: str) -> str:
        folder_path, name = parent_of(path)
        try:
            with self.folders.folder(folder_path) as folder:
                return tree_digest(folder, name)
        except OSError:
            return ABSENT

    def _accept(self, path: str, state: str) -> None:
        if self._accepted:
            self._accepted.add(path, state)

    def _make(self, path: str) -> None:
        """Creates a missing or replaced folder of git or GitHub."""
        folder_path, name = parent_of(path)
        with suppress(OSError), self.folders.folder(folder_path) as folder:
            now = status_of(folder, name)
            if now and not stat.S_ISDIR(now.st_mode):
                self._quarantine.move_in(folder, name, path, "changed")
            os.mkdir(name, 0o755, dir_fd=folder)


def _unlink(folder: int, name: str) -> None:
    with suppress(OSError):
        try:
            os.unlink(name, dir_fd=folder)
        except IsADirectoryError:
            shutil.rmtree(name, dir_fd=folder)


def _added(now: bytes, clean: bytes) -> list[tuple[str, str | None]]:
    """Returns the settings that are in `now` but not in `clean`."""

    try:
        kept = [(entry.key, entry.value) for entry in git_config.parse(clean)]
        return [
            (entry.key, entry.value)
            for entry in git_config.parse(now)
            if (entry.key, entry.value) not in kept
        ]
    except git_config.BadConfig:
        return []


def _is(folder: int, name: str, status: os.stat_result, node: PathNode) -> bool:
    """Returns whether it has the same content, or is a link to the same target."""
    if stat.S_ISLNK(status.st_mode):
        return node.kind == "link" and os.fsencode(os.readlink(name, dir_fd=folder)) == node.content
    return node.kind == "file" and read_file(folder, name, KEPT_FILE) == node.content
