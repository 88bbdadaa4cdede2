"""Puts back what a command did to protected names, while it runs and when it has ended.

A command in a shell can write what no file tool may: files that start programs and configure
agents. Before the first command all of them are looked at and kept; what differs later is put back,
and what was there instead is moved aside and told. While commands run, the system tells what
happens to those names (inotify); without commands nothing is looked at. Files that steer an agent
by words (`AGENTS.md`) are left as they are, and told. So is what comes with a folder that the
command itself made, a clone for example. It cannot know who wrote: whatever the user changes there
while a command runs is put back too, and `accept` is how the harness says that it was itself.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from bridle.workspace import inotify
from bridle.workspace.aside import Aside
from bridle.workspace.folder_changes import shown
from bridle.workspace.inotify import Happening, Inotify
from bridle.workspace.protected import (
    NOTHING,
    Node,
    State,
    look,
    mark_of,
    matters,
    open_folder,
    parent_of,
    plain,
)
from bridle.workspace.refusal import Refused

PAUSE = 0.2  # seconds between two looks, however much happens
WITHOUT_INOTIFY = 0.5
_FIRST_LOOK = 0.2  # most commands have ended by then
_AT_ONCE = 1_000  # things put back in one go
_ROUNDS = 100
_FEW = 200  # things that are looked at sooner than a thread has begun

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


class Duty:
    """From before a command until its end: what was put back meanwhile."""

    def __init__(self, sentinel: Sentinel) -> None:
        self._sentinel = sentinel
        self.found: list[PutBack] = []

    async def end(self) -> tuple[PutBack, ...]:
        await self._sentinel._end(self)
        return tuple(self.found)


class Sentinel:
    """Of one workspace. `spared`: paths that commands may write. `told` hears of all at once."""

    def __init__(
        self,
        root: Path,
        aside: Path,
        *,
        spared: Callable[[str], bool] = lambda path: False,
        told: Callable[[tuple[PutBack, ...]], None] = lambda found: None,
    ) -> None:
        self._path = root.absolute()
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            self._root = os.open(self._path, flags)
            self._parent = os.open(self._path.parent, flags)
        except OSError as error:
            raise Refused(f"the workspace {root} cannot be opened: {error.strerror}") from None
        self._aside = Aside(aside)
        self._spared, self._told = spared, told
        self._state = NOTHING
        self._left: dict[str, object] = {}  # told once, as it is
        self._git = -1  # the folder itself, wherever it is moved to
        self._replaced = False  # files that are watched
        self._untold: list[PutBack] = []
        self._lock = threading.Lock()
        self._turn = asyncio.Lock()
        self._duties: list[Duty] = []
        self._watch: asyncio.Task[None] | None = None
        self._armed: dict[str, tuple[int, int]] | None = None  # the folders that are watched

    # -- for the harness ---------------------------------------------------------------------------

    async def begin(self) -> Duty:
        """Before a command starts. End the duty when all its processes are gone."""
        duty = Duty(self)
        async with self._turn:
            if not self._duties:
                await self._accept()
            elif not self._as_it_was():
                await asyncio.to_thread(self.check)
                self._tell()
            self._duties.append(duty)
            if self._watch is None:
                self._watch = asyncio.create_task(self._keep_watch(_FIRST_LOOK))
        return duty

    async def _end(self, duty: Duty) -> None:
        async with self._turn:
            if duty not in self._duties:
                return
            others = len(self._duties) > 1
            if not (others and self._as_it_was() and self._armed == _places(self._state)):
                await self._unwatch()
                if not self._as_it_was():
                    await asyncio.to_thread(self._last_check)
            self._tell()
            self._duties.remove(duty)
            if self._duties and self._watch is None:
                self._watch = asyncio.create_task(self._keep_watch(0))

    async def _accept(self) -> None:
        if self._small:
            self.accept()
        else:
            await asyncio.to_thread(self.accept)

    def accept(self) -> None:
        """What is there now is as it should be."""
        with self._lock:
            self._state = look(self._root, self._state, baseline=True)
            self._left.clear()
            self._hold_git()

    def check(self) -> tuple[PutBack, ...]:
        """Puts back what differs."""
        with self._lock:
            found = self._check()
            self._untold += found
            return found

    async def close(self) -> None:
        await self._unwatch()
        with self._lock:
            for held in (self._root, self._parent, self._git):
                if held >= 0:
                    os.close(held)
            self._root = self._parent = self._git = -1

    async def _unwatch(self) -> None:
        if self._watch:
            self._watch.cancel()
            with suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None

    def _tell(self) -> None:
        with self._lock:
            found, self._untold = tuple(self._untold), []
        if found:
            for duty in self._duties:
                duty.found += found
            self._told(found)

    # -- while commands run ------------------------------------------------------------------------

    async def _keep_watch(self, delay: float) -> None:
        await asyncio.sleep(delay)
        while True:
            try:
                alarm = Inotify()
            except OSError:
                await asyncio.to_thread(self.check)
                self._tell()
                await asyncio.sleep(WITHOUT_INOTIFY)
                continue
            try:
                self._replaced = False
                watched = await asyncio.to_thread(self._arm, alarm)
                # and what happened before the alarm was set
                while not (await asyncio.to_thread(self.check)) and not self._replaced:
                    await _until_it_matters(alarm, watched)
            finally:
                self._armed = None
                # the kernel takes its time, and nobody has to wait
                asyncio.get_running_loop().run_in_executor(None, alarm.close)
            self._tell()
            await asyncio.sleep(PAUSE)

    def _arm(self, alarm: Inotify) -> _Watched:
        with self._lock:
            state, roles, complete = self._state, {}, True
            for path, seen in state.folders.items():
                with suppress(OSError), self._folder(path) as folder:
                    watch = _add(alarm, folder, inotify.NAMES | inotify.ATTRIB)
                    complete = complete and watch is not None
                    if watch is not None:
                        roles[watch] = seen.role
            for path, node in state.nodes.items():
                mask = inotify.NAMES | inotify.ATTRIB if node.kind == "folder" else inotify.CONTENT
                if node.kind in ("file", "folder"):
                    with suppress(OSError), self._held(path) as held:
                        watch = _add(alarm, held, mask)
                        complete = complete and watch is not None
                        roles.pop(watch or -1, None)
            self._armed = _places(state)
        return _Watched(roles, complete)

    # -- looking -----------------------------------------------------------------------------------

    @property
    def _small(self) -> bool:
        """Of what is known; before the first look nothing is."""
        return 0 < len(self._state.folders) + len(self._state.nodes) <= _FEW

    def _as_it_was(self) -> bool:
        """One look, where it is over at once. False: all has to be checked."""
        if not self._small or not self._lock.acquire(blocking=False):
            return False
        try:
            before, after = self._state, look(self._root, self._state, baseline=False)
            after = after._replace(whole=before.whole)
            if after.has_new_folders or not self._in_place():
                return False
            if _differences(before, after) or self._words(before, after):
                return False
            if any(_touched(before, after, path) for path in before.nodes):
                return False
            self._state = after
            return True
        finally:
            self._lock.release()

    def _in_place(self) -> bool:
        """The workspace and its repository have their names."""
        held = [(self._parent, self._path.name, self._root)]
        if self._git >= 0:
            held.append((self._root, ".git", self._git))
        for folder, name, ours in held:
            now = _status(folder, name)
            if now is None or not os.path.samestat(now, os.fstat(ours)):
                return False
        return True

    def _check(self) -> tuple[PutBack, ...]:
        found = self._root_back() + self._git_back()
        before, after = self._state, look(self._root, self._state, baseline=False)
        found += self._words(before, after)
        differing = _differences(before, after)
        touched = [path for path in before.nodes if _touched(before, after, path)]
        if not differing and not touched:
            self._state = after._replace(whole=before.whole)
            return tuple(found)
        self._replaced = True
        for path in touched:
            with suppress(OSError):
                self._restore(path, before.nodes[path], after.nodes[path])
        for path in differing[:_AT_ONCE]:
            one = self._put_back(path, before.nodes.get(path), after.nodes.get(path))
            if one and not any(one.path.startswith(f"{other.path}/") for other in found):
                found.append(one)
        self._refresh()
        return tuple(found)

    def _last_check(self) -> None:
        """Until nothing differs; then takes in what lies in folders that are new."""
        with self._lock:
            for _ in range(_ROUNDS):
                found = self._check()
                self._untold += found
                if not found:
                    break
            before = self._state
            if not before.has_new_folders:
                return
            grown = look(self._root, before, baseline=True)
            new = {path: node for path, node in grown.nodes.items() if _is_new(path, before, grown)}
            why = "it came with a folder that the command made"
            self._untold += [
                PutBack(shown(path), "created", False, "", why)
                for path in new
                if parent_of(path)[0] not in new
            ]
            self._state = before._replace(
                nodes={**before.nodes, **new},
                words=grown.words,
                folders={**grown.folders, **before.folders},
                closed=before.closed | {path for path in grown.closed if path in new},
                whole=grown.whole,
            )

    def _refresh(self) -> None:
        """Marks of what is as it was; never the content of what is not."""
        before, now = self._state, look(self._root, self._state, baseline=False)
        nodes = dict(before.nodes)
        for path, node in before.nodes.items():
            if (other := now.nodes.get(path)) and other.same(node):
                nodes[path] = node._replace(mark=other.mark)
        folders = {path: now.folders.get(path, seen) for path, seen in before.folders.items()}
        self._state = before._replace(
            at=now.at, nodes=nodes, words=now.words, folders={**folders, **now.folders}
        )

    def _words(self, before: State, after: State) -> list[PutBack]:
        found = []
        for path in sorted({**before.words, **after.words}):
            was, now = before.words.get(path), after.words.get(path)
            if was != now and parent_of(path)[0] in after.folders:
                act: Act = "created" if was is None else "deleted" if now is None else "changed"
                why = "it steers agents by words; the user should read it"
                found.append(PutBack(shown(path), act, False, "", why))
        return found

    # -- putting back ------------------------------------------------------------------------------

    def _put_back(self, path: str, was: Node | None, now: Node | None) -> PutBack | None:
        act: Act = "created" if was is None else "deleted" if now is None else "changed"
        if self._spared(path):
            self._adopt(path)
            return None
        if path in self._left and self._left[path] == (now and now.mark):
            return None
        told = shown(path)
        try:
            aside = self._remove(path) if was is None else self._restore(path, was, now)
        except FileNotFoundError:
            why = "its folder is gone"
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return PutBack(told, act, True, aside)
        self._left[path] = now and now.mark
        return PutBack(told, act, False, "", why)

    def _adopt(self, path: str) -> None:
        now, nodes = look(self._root, self._state, baseline=True), dict(self._state.nodes)
        for one in [one for one in nodes if f"{one}/".startswith(f"{path}/")]:
            del nodes[one]
        nodes |= {one: node for one, node in now.nodes.items() if f"{one}/".startswith(f"{path}/")}
        self._state = self._state._replace(nodes=nodes)

    def _remove(self, path: str) -> str:
        folder_path, name = parent_of(path)
        with self._folder(folder_path) as folder:
            try:
                return self._aside.take(folder, name)
            except FileNotFoundError:
                return ""  # gone by itself

    def _restore(self, path: str, was: Node, now: Node | None) -> str:
        folder_path, name = parent_of(path)
        if (seen := self._state.folders.get(folder_path)) and seen.role != "work":
            self._make(folder_path)
        with self._folder(folder_path) as folder:
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

    def _make(self, path: str) -> None:
        """A `.git` or `.github` that is gone."""
        folder_path, name = parent_of(path)
        with suppress(OSError), self._folder(folder_path) as folder:
            os.mkdir(name, 0o755, dir_fd=folder)

    @contextmanager
    def _folder(self, path: str) -> Iterator[int]:
        folder = open_folder(self._root, path)
        try:
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def _held(self, path: str) -> Iterator[int]:
        folder_path, name = parent_of(path)
        with self._folder(folder_path) as folder:
            held = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                yield held
            finally:
                os.close(held)

    # -- folders that were moved away --------------------------------------------------------------

    def _root_back(self) -> list[PutBack]:
        """The workspace itself, if it is still beside where it was."""
        name, ours = self._path.name, os.fstat(self._root)
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

    def _hold_git(self) -> None:
        if self._git >= 0:
            os.close(self._git)
            self._git = -1
        with suppress(OSError):
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._git = os.open(".git", flags, dir_fd=self._root)

    def _git_back(self) -> list[PutBack]:
        """A repository is more than what we keep of it: the folder itself comes back."""
        if self._git < 0:
            return []
        ours, now = os.fstat(self._git), _status(self._root, ".git")
        if (now and os.path.samestat(now, ours)) or self._spared(".git"):
            return []
        here = f"{Path(f'/proc/self/fd/{self._root}').readlink()}/"
        there = str(Path(f"/proc/self/fd/{self._git}").readlink())
        if not there.startswith(here):
            return []  # removed, or out of reach: what names commands is written anew
        folder_path, name = parent_of(there.removeprefix(here))
        try:
            with self._folder(folder_path) as folder:
                found = _status(folder, name)
                if found is None or not os.path.samestat(found, ours):
                    return []
                aside = self._aside.take(self._root, ".git") if now else ""
                os.rename(name, ".git", src_dir_fd=folder, dst_dir_fd=self._root)
        except OSError:
            return []
        return [PutBack(".git", "moved", True, aside)]


class _Watched(NamedTuple):
    roles: dict[int, str]  # of folders in which only some names matter
    complete: bool  # False: the system has no more watches


def _places(state: State) -> dict[str, tuple[int, int]]:
    return {path: (seen.mark.device, seen.mark.inode) for path, seen in state.folders.items()}


def _add(alarm: Inotify, held: int, mask: int) -> int | None:
    """None where the system has no more; -1 for what may not be read, and so not be watched."""
    try:
        return alarm.add_open(held, mask)
    except OSError as error:
        return None if error.errno in (errno.ENOSPC, errno.ENOMEM) else -1


async def _until_it_matters(alarm: Inotify, watched: _Watched) -> None:
    while True:
        await alarm.wait(None if watched.complete else WITHOUT_INOTIFY)
        happened = alarm.read()
        if not watched.complete or any(_matters(one, watched.roles) for one in happened):
            return
        await asyncio.sleep(PAUSE)


def _matters(one: Happening, roles: dict[int, str]) -> bool:
    role = roles.get(one.watch)
    return role is None or not one.name or matters(os.fsdecode(one.name), role)


def _differences(before: State, after: State) -> list[str]:
    """Folders before what is in them; of what is new only the outermost."""
    found = []
    for path, node in before.nodes.items():
        now = after.nodes.get(path)
        if now is None or not now.same(node):
            found.append(path)
    found += [path for path in after.nodes if path not in before.nodes]
    return sorted(found)


def _touched(before: State, after: State, path: str) -> bool:
    """The same content, and somebody has it open, or has another name for it."""
    was, now = before.nodes[path], after.nodes.get(path)
    if now is None or was.kind != "file" or was.content is None or not now.same(was):
        return False
    return was.mark != now.mark


def _is_new(path: str, before: State, grown: State) -> bool:
    """Lies in a folder that was not known."""
    folder, _ = parent_of(path)
    while folder not in grown.folders:
        folder, _ = parent_of(folder)
    return folder not in before.folders


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
