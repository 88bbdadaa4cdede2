"""Restores protected names to what they were, and keeps what was there instead.

All goes by descriptors that stay open: of the workspace, of the folder that it lies in and of its
`.git`. What was renamed is found again, and whoever swaps in a link leads nowhere.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from bridle.workspace.file_names import shown
from bridle.workspace.protection.accepted import ABSENT, Accepted, digest, digest_of
from bridle.workspace.protection.known_commits import Files, git_mode
from bridle.workspace.protection.protected_names import (
    KEPT_FILE,
    Node,
    State,
    mark_of,
    open_folder,
    parent_of,
    plain,
    read_file,
)
from bridle.workspace.protection.quarantine import Act, Quarantine
from bridle.workspace.refusal import Refused

_EXCHANGE = 2  # RENAME_EXCHANGE
_libc = ctypes.CDLL(None, use_errno=True)
_TRIES = 3  # to restore one name
_MOST_FILES = 1_000  # of a folder
_DISARMS = 20  # times that a config is changed while it is read


class Undone(Struct, frozen=True):
    """A change of a protected name, and what became of it."""

    path: str
    act: Act
    restored: bool = True  # False: the change is still there
    kept: str = ""  # where what was there instead is now
    why: str = ""  # it was not restored
    settings: tuple[str, ...] = ()  # of a git config: only these were removed

    @property
    def id(self) -> str:
        return Path(self.kept).parent.name if self.kept else ""

    @property
    def text(self) -> str:
        """For the user, and for whoever made the change."""
        if not self.restored:
            return f"{self.path} was {self.act} and was not restored: {self.why}"
        if self.settings:
            done = f"{self.path}: removed {', '.join(self.settings)}"
        else:
            done = f"{self.path} was {self.act} and has been "
            done += "removed" if self.act == "created" else "restored"
        back = f" `bridle protected take-back {self.id}` brings the change back." if self.id else ""
        return f"{done}. {self._reason}.{back}"

    @property
    def _reason(self) -> str:
        parts = [plain(part) for part in self.path.split("/")]
        if ".git" in parts:
            return "It names programs that git runs, so only the user may change it"
        return "It starts programs or configures agents, so only the user may change it"


def act_of(was: object, now: object) -> Act:
    return "created" if was is None else "deleted" if now is None else "changed"


class AcceptedMeanwhile(Exception):
    """The user took it back, or another session restored it, just now."""


class Restorer:
    """Of one workspace. One thread at a time."""

    def __init__(
        self, root: Path, quarantine: Quarantine, accepted: Accepted | None = None
    ) -> None:
        self._path = root.absolute()
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            self.root = os.open(self._path, flags)
            self._parent = os.open(self._path.parent, flags)
        except OSError as error:
            raise Refused(f"the workspace {root} cannot be opened: {error.strerror}") from None
        self._git = -1  # the folder itself, wherever it is moved to
        self._quarantine = quarantine
        self._accepted = accepted
        self._left: dict[str, object] = {}  # reported once, as it is

    def accept(self) -> None:
        """What is there now is as it should be."""
        if self._accepted and not self._accepted.since:
            self._accepted.since = time.time_ns()
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

    def undo(self, path: str, before: State, after: State) -> Undone | None:
        """None for what still cannot be undone, if that was reported."""
        was, now = before.nodes.get(path), after.nodes.get(path)
        reported = path in self._left and self._left[path] == (now and now.mark)
        called, act = shown(path), act_of(was, now)
        # with more new files than are looked at
        flooded = bool(was and now and was.kind == "folder" and now.kind == "other")
        for _ in range(_TRIES):
            if (was is None or now is None or was.mode == now.mode) and self.is_accepted(path):
                raise AcceptedMeanwhile
            try:
                kept = self.restore(path, before, whole=flooded) if was else self._remove(path)
            except FileNotFoundError:
                why = "its folder is gone"
            except OSError as error:  # it may be another thing by now
                why = error.strerror or str(error)
            else:
                if act == "deleted":
                    kept = kept or self._quarantine.note(path, act)
                return Undone(called, act, True, kept)
        return None if reported else Undone(called, act, False, "", why)

    def leave(self, path: str, after: State) -> None:
        """It cannot be undone as it is now, and this was reported."""
        now = after.nodes.get(path)
        self._left[path] = now and now.mark

    def restore(self, path: str, before: State, *, whole: bool = False) -> str:
        """What was there before. Where the other one is now, or "" if there was none.

        A folder may be replaced as a `whole`: what belongs in it is restored file by file.
        """
        was = before.nodes[path]
        folder_path, name = parent_of(path)
        if (seen := before.folders.get(folder_path)) and seen.role != "work":
            self._make(folder_path)
        with self.folder(folder_path) as folder:
            kept = ""
            now = _status(folder, name)
            if now and (whole or stat.S_ISDIR(now.st_mode) != (was.kind == "folder")):
                kept = self._quarantine.take(folder, name, path, "changed")
                now = None
            if was.kind == "folder":
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=folder)
                _set_mode(folder, name, was)
                return kept
            if was.content is None or was.kind == "other":
                raise OSError("it was too large, or could not be read, so that no copy was kept")
            if now and not _is(folder, name, now, was):
                kept = kept or self._quarantine.copy(folder, name, path)
            if kept and self.is_accepted(path) and self.digest_at(path) != digest_of(was):
                raise AcceptedMeanwhile
            self._accept(path, digest_of(was))
            _place(folder, name, was, self._scratch(folder))
            return kept

    def disarm(self, path: str, known: Node | None) -> tuple[Undone | None, bytes | None]:
        """A git config without programs that are new. What was removed, and what is there now.

        The files are exchanged: whatever git wrote meanwhile is looked at again, and not lost.
        """
        from bridle.workspace.protection import git_config  # most sessions need none of it

        base = (known and known.content) or b""
        folder_path, name = parent_of(path)
        removed: dict[tuple[str, str | None], None] = {}
        kept = ""
        with self.folder(folder_path) as folder:
            for _ in range(_DISARMS):
                now = read_file(folder, name, KEPT_FILE)
                if now is None:
                    raise OSError("it cannot be read as a file")
                clean = git_config.disarm(now, base)
                if not clean.undone:
                    break
                removed |= dict.fromkeys(_added(now, clean.content))
                kept = kept or self._quarantine.copy(folder, name, path, "changed", list(removed))
                self._accept(path, digest("file", clean.content))
                _replace(folder, name, clean.content, now, known)
            else:
                raise OSError("another program keeps replacing it")
        if not removed and not kept:
            return None, now
        keys = tuple(dict.fromkeys(key for key, _ in removed)) or ("settings",)
        return Undone(shown(path), "changed", True, kept, settings=keys), now

    def is_empty(self, path: str) -> bool:
        """A folder or a file with nothing in it."""
        try:
            with self.held(path) as held:
                status = os.fstat(held)
            if not stat.S_ISDIR(status.st_mode):
                return stat.S_ISREG(status.st_mode) and status.st_size == 0
            with self.folder(path) as folder:
                return not os.listdir(folder)  # noqa: PTH208
        except OSError:
            return False

    def files_at(self, path: str) -> Files | None:
        """All that lies at a path. None where it is too much, or no file of git's kind."""
        found: Files = {}
        todo = [path]
        while todo:
            one = todo.pop()
            folder_path, name = parent_of(one)
            try:
                with self.folder(folder_path) as folder:
                    status = _status(folder, name)
                    if status is None:
                        continue
                    if stat.S_ISDIR(status.st_mode):
                        inner = open_folder(folder, name)
                        try:
                            todo += [f"{one}/{each}" for each in os.listdir(inner)]  # noqa: PTH208
                        finally:
                            os.close(inner)
                    elif stat.S_ISLNK(status.st_mode):
                        target = os.fsencode(os.readlink(name, dir_fd=folder))
                        found[one] = (git_mode("link", 0), target)
                    else:
                        content = read_file(folder, name, KEPT_FILE)
                        if content is None:
                            return None
                        found[one] = (git_mode("file", status.st_mode), content)
            except FileNotFoundError:
                continue
            except OSError:
                return None
            if len(found) + len(todo) > _MOST_FILES:
                return None
        return found

    def digest_at(self, path: str) -> str:
        """Of what lies at a path, with all that is in it."""
        folder_path, name = parent_of(path)
        try:
            with self.folder(folder_path) as folder:
                return tree_digest(folder, name)
        except OSError:
            return ABSENT

    def is_accepted(self, path: str) -> bool:
        """The user took it back, or another session restored it."""
        return self._accepted is not None and self._accepted.has(path, self.digest_at(path))

    def _scratch(self, folder: int) -> int:
        """Where drafts are written: inside `.git`, where no `git status` sees them."""
        with suppress(OSError):
            status = os.fstat(self._git) if self._git >= 0 else None
            if status and status.st_nlink and status.st_dev == os.fstat(folder).st_dev:
                return self._git
        return folder

    def _accept(self, path: str, state: str) -> None:
        if self._accepted:
            self._accepted.add(path, state)

    def _remove(self, path: str) -> str:
        folder_path, name = parent_of(path)
        with self.folder(folder_path) as folder:
            try:
                self._accept(path, ABSENT)
                kept = self._quarantine.take(folder, name, path, "created")
            except FileNotFoundError:
                return ""  # gone by itself
            if kept and self._was_accepted(path, Path(kept)):
                with suppress(OSError):
                    os.rename(kept, name, dst_dir_fd=folder)
                    shutil.rmtree(Path(kept).parent)
                raise AcceptedMeanwhile
            return kept

    def _was_accepted(self, path: str, taken: Path) -> bool:
        """Somebody took the change back at this very moment, and that was moved away."""
        if not self._accepted:
            return False
        with suppress(OSError):
            opened = os.open(taken.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                return self._accepted.has(path, tree_digest(opened, taken.name))
            finally:
                os.close(opened)
        return False

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

    def root_back(self) -> list[Undone]:
        """The workspace itself, if it is still beside where it was."""
        name, ours = self._path.name, os.fstat(self.root)
        now = _status(self._parent, name)
        if now and os.path.samestat(now, ours):
            return []
        with suppress(OSError):
            if os.path.samestat(self._path.stat(), ours):
                return []  # the user's own way in: a link to it
        called = shown(str(self._path))
        moved = _named(self._parent, ours)
        if moved is None:
            if self._left.get("") == ours.st_ino:
                return []
            self._left[""] = ours.st_ino
            why = "the workspace is no longer where it was"
            return [Undone(called, "moved", False, "", why)]
        try:
            kept = self._quarantine.take(self._parent, name, ".", "moved") if now else ""
            os.rename(moved, name, src_dir_fd=self._parent, dst_dir_fd=self._parent)
        except OSError as error:
            return [Undone(called, "moved", False, "", error.strerror or str(error))]
        return [Undone(called, "moved", True, kept)]

    def git_back(self) -> list[Undone]:
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
                kept = self._quarantine.take(self.root, ".git", ".git", "moved") if now else ""
                os.rename(name, ".git", src_dir_fd=folder, dst_dir_fd=self.root)
        except OSError:
            return []
        return [Undone(".git", "moved", True, kept)]


def _place(folder: int, name: str, node: Node, scratch: int) -> None:
    """A new file or link in the place of whatever has the name."""
    for _ in range(5):
        draft = f".bridle-restore-{os.urandom(8).hex()}"
        try:
            ours = _write_draft(scratch, draft, node)
            os.rename(draft, name, src_dir_fd=scratch, dst_dir_fd=folder)
        except OSError:
            with suppress(OSError):
                os.unlink(draft, dir_fd=scratch)
            if scratch == folder:
                raise
            scratch = folder  # `.git` was just removed or moved, or is another file system
            continue
        now = _status(folder, name)
        if now and mark_of(now)[:2] == mark_of(ours)[:2]:
            return
    raise OSError("another program keeps replacing it")


def _write_draft(folder: int, name: str, node: Node) -> os.stat_result:
    assert node.content is not None
    if node.kind == "link":
        os.symlink(os.fsdecode(node.content), name, dir_fd=folder)
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    return _write(folder, name, node)


def _replace(folder: int, name: str, content: bytes, seen: bytes, known: Node | None) -> None:
    """`content` in the place of a file that held `seen`; one that holds more by now comes back."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    mode = known.mode if known else stat.S_IMODE(status.st_mode)
    owner = known.owner if known else (status.st_uid, status.st_gid)
    node = Node("file", mode, owner, status.st_mtime_ns, content, mark_of(status))
    temporary = f".bridle-restore-{os.urandom(8).hex()}"
    _write(folder, temporary, node)
    try:
        _exchange(folder, temporary, name)
        if read_file(folder, temporary, KEPT_FILE) != seen:
            _exchange(folder, temporary, name)
    finally:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def _exchange(folder: int, one: str, other: str) -> None:
    names = os.fsencode(one), os.fsencode(other)
    if _libc.renameat2(folder, names[0], folder, names[1], _EXCHANGE):
        os.rename(one, other, src_dir_fd=folder, dst_dir_fd=folder)  # no such call here


def _added(now: bytes, clean: bytes) -> list[tuple[str, str | None]]:
    """Settings that one config has and the other has not."""
    from bridle.workspace.protection import git_config

    try:
        kept = [(entry.key, entry.value) for entry in git_config.parse(clean)]
        return [
            (entry.key, entry.value)
            for entry in git_config.parse(now)
            if (entry.key, entry.value) not in kept
        ]
    except git_config.BadConfig:
        return []


def tree_digest(folder: int, name: str, room: int = 1_000) -> str:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return digest("link", os.fsencode(os.readlink(name, dir_fd=folder)))
    if not stat.S_ISDIR(status.st_mode):
        return digest("file", read_file(folder, name, KEPT_FILE) or b"")
    inner = open_folder(folder, name)
    try:
        listed = sorted(os.listdir(inner))[:room]  # noqa: PTH208
        parts = [f"{one}\0{tree_digest(inner, one, room // 2)}" for one in listed]
        return digest("folder", "\n".join(parts).encode("utf-8", "surrogateescape"))
    finally:
        os.close(inner)


def _is(folder: int, name: str, status: os.stat_result, node: Node) -> bool:
    """The same content, or a link to the same place."""
    if stat.S_ISLNK(status.st_mode):
        return node.kind == "link" and os.fsencode(os.readlink(name, dir_fd=folder)) == node.content
    return node.kind == "file" and read_file(folder, name, KEPT_FILE) == node.content


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
