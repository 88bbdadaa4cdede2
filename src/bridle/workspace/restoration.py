"""Puts protected names back as they were, and moves aside what was there instead.

All goes by descriptors that stay open: of the workspace, of the folder that it lies in and of its
`.git`. What was renamed is found again, and whoever swaps in a link leads nowhere.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from msgspec import Struct

from bridle.workspace.aside import Aside
from bridle.workspace.folder_changes import shown
from bridle.workspace.protected import Node, State, mark_of, open_folder, parent_of, plain
from bridle.workspace.refusal import Refused

Act = Literal["created", "changed", "deleted", "moved"]


class PutBack(Struct, frozen=True):
    """What a command did to a protected name."""

    path: str
    act: Act
    restored: bool = True  # False: it is as the command left it
    aside: str = ""  # where the command's own is now
    why: str = ""  # it was left

    @property
    def text(self) -> str:
        """For whoever ran the command."""
        if not self.restored:
            return f"{self.path} was {self.act} and left so: {self.why}"
        mended = "taken away" if self.act == "created" else "put back"
        kept = f"; what the command made is in {self.aside}" if self.aside else ""
        return f"{self.path} was {self.act} and has been {mended}{kept}. {self._hint}"

    @property
    def _hint(self) -> str:
        parts = [plain(part) for part in self.path.split("/")]
        if ".git" in parts:
            return "It names programs that git runs: the user can change it in their own terminal"
        return "It starts programs or configures agents: tell the user what should be in it"


def act_of(was: object, now: object) -> Act:
    return "created" if was is None else "deleted" if now is None else "changed"


class Restoration:
    """Of one workspace. One thread at a time."""

    def __init__(self, root: Path, aside: Path) -> None:
        self._path = root.absolute()
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            self.root = os.open(self._path, flags)
            self._parent = os.open(self._path.parent, flags)
        except OSError as error:
            raise Refused(f"the workspace {root} cannot be opened: {error.strerror}") from None
        self._git = -1  # the folder itself, wherever it is moved to
        self._aside = Aside(aside)
        self._left: dict[str, object] = {}  # told once, as it is

    def accept(self) -> None:
        """What is there now is as it should be."""
        self._left.clear()
        self._let_go_of_git()
        with suppress(OSError):
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._git = os.open(".git", flags, dir_fd=self.root)

    def close(self) -> None:
        self._let_go_of_git()
        for held in (self.root, self._parent):
            if held >= 0:
                os.close(held)
        self.root = self._parent = -1

    def _let_go_of_git(self) -> None:
        if self._git >= 0:
            os.close(self._git)
            self._git = -1

    @contextmanager
    def folder(self, path: str) -> Iterator[int]:
        """Open, name by name from the workspace."""
        folder = open_folder(self.root, path)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def held(self, path: str) -> Iterator[int]:
        """What has the name itself: a link is not followed."""
        folder_path, name = parent_of(path)
        with self.folder(folder_path) as folder:
            held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                yield held
            finally:
                os.close(held)

    def put_back(self, path: str, before: State, after: State) -> PutBack | None:
        """None for what cannot be, if that was told."""
        was, now = before.nodes.get(path), after.nodes.get(path)
        if path in self._left and self._left[path] == (now and now.mark):
            return None
        told, act = shown(path), act_of(was, now)
        try:
            aside = self.restore(path, before, after) if was else self._remove(path)
        except FileNotFoundError:
            why = "its folder is gone"
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return PutBack(told, act, True, aside)
        self._left[path] = now and now.mark
        return PutBack(told, act, False, "", why)

    def restore(self, path: str, before: State, after: State) -> str:
        """What was there before. Where the command's own is now, or "" if it had none."""
        was, now = before.nodes[path], after.nodes.get(path)
        folder_path, name = parent_of(path)
        if (seen := before.folders.get(folder_path)) and seen.role != "work":
            self._make(folder_path)
        with self.folder(folder_path) as folder:
            aside = ""
            if now and (now.kind == "folder") != (was.kind == "folder"):
                aside = self._aside.take(folder, name)
                now = None
            if was.kind == "folder":
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                _set_mode(folder, name, was)
                return aside
            if was.content is None or was.kind == "other":
                raise OSError("it was too large, or could not be read, so that no copy was kept")
            if now and not now.same(was):
                aside = self._aside.copy(folder, name)
            _place(folder, name, was)
            return aside

    def _remove(self, path: str) -> str:
        folder_path, name = parent_of(path)
        with self.folder(folder_path) as folder:
            try:
                return self._aside.take(folder, name)
            except FileNotFoundError:
                return ""  # gone by itself

    def _make(self, path: str) -> None:
        """A `.git` or `.github` that is gone."""
        folder_path, name = parent_of(path)
        with suppress(OSError), self.folder(folder_path) as folder:
            os.mkdir(name, 0o755, dir_fd=folder)

    def in_place(self) -> bool:
        """The workspace and its repository have their names."""
        held = [(self._parent, self._path.name, self.root)]
        if self._git >= 0:
            held.append((self.root, ".git", self._git))
        for folder, name, ours in held:
            now = _status(folder, name)
            if now is None or not os.path.samestat(now, os.fstat(ours)):
                return False
        return True

    # -- folders that were moved away --------------------------------------------------------------

    def root_back(self) -> list[PutBack]:
        """The workspace itself, if it is still beside where it was."""
        name, ours = self._path.name, os.fstat(self.root)
        now = _status(self._parent, name)
        if now and os.path.samestat(now, ours):
            return []
        with suppress(OSError):
            if os.path.samestat(self._path.stat(), ours):
                return []  # the user's own way in: a link to it
        told = shown(str(self._path))
        moved = _named(self._parent, ours)
        if moved is None:
            if self._left.get("") == ours.st_ino:
                return []
            self._left[""] = ours.st_ino
            why = "the workspace is no longer where it was"
            return [PutBack(told, "moved", False, "", why)]
        try:
            aside = self._aside.take(self._parent, name) if now else ""
            os.rename(moved, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except OSError as error:
            return [PutBack(told, "moved", False, "", error.strerror or str(error))]
        return [PutBack(told, "moved", True, aside)]

    def git_back(self) -> list[PutBack]:
        """A repository is more than what we keep of it: the folder itself comes back."""
        if self._git < 0:
            return []
        ours, now = os.fstat(self._git), _status(self.root, ".git")
        if now and os.path.samestat(now, ours):
            return []
        here = f"{Path(f'/proc/self/fd/{self.root}').readlink()}/"
        there = str(Path(f"/proc/self/fd/{self._git}").readlink())
        if not there.startswith(here):
            return []  # removed, or out of reach: what names commands is written anew
        folder_path, name = parent_of(there.removeprefix(here))
        try:
            with self.folder(folder_path) as folder:
                found = _status(folder, name)
                if found is None or not os.path.samestat(found, ours):
                    return []
                aside = self._aside.take(self.root, ".git") if now else ""
                os.rename(name, ".git", src_dir_fd=folder, dst_dir_fd=self.root)
        except OSError:
            return []
        return [PutBack(".git", "moved", True, aside)]


def _place(folder: int, name: str, node: Node) -> None:
    """A new file or link in the place of whatever has the name."""
    assert node.content is not None
    for _ in range(5):
        temporary = f".bridle-back-{secrets.token_hex(8)}"
        if node.kind == "link":
            os.symlink(os.fsdecode(node.content), temporary, dir_fd=folder)
            ours = os.stat(temporary, dir_fd=folder, follow_symlinks=False)
        else:
            ours = _write(folder, temporary, node)
        try:
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        now = _status(folder, name)
        if now and mark_of(now)[:2] == mark_of(ours)[:2]:
            return
    raise OSError("another program keeps replacing it")


def _write(folder: int, name: str, node: Node) -> os.stat_result:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as out:
        out.write(node.content or b"")
        out.flush()
        with suppress(PermissionError):
            os.fchown(out.fileno(), *node.owner)
        os.fchmod(out.fileno(), node.mode)
        os.utime(out.fileno(), ns=(node.modified, node.modified))
        os.fsync(out.fileno())
        return os.fstat(out.fileno())


def _set_mode(folder: int, name: str, node: Node) -> None:
    held = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        Path(f"/proc/self/fd/{held}").chmod(node.mode)
        with suppress(PermissionError):
            os.chown(f"/proc/self/fd/{held}", *node.owner)
    finally:
        os.close(held)


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def _named(folder: int, status: os.stat_result) -> str | None:
    """What a folder is called now, in the folder that it was in."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _status(folder, entry.name) if entry.inode() == status.st_ino else None
            if found and os.path.samestat(found, status):
                return entry.name
    return None
