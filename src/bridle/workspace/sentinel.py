"""Watches protected names while commands run, and has put back what they did there.

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
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from bridle.workspace import inotify
from bridle.workspace.folder_changes import shown
from bridle.workspace.inotify import Happening, Inotify
from bridle.workspace.protected import NOTHING, State, look, matters, parent_of
from bridle.workspace.restoration import PutBack, Restoration, act_of

__all__ = ["Duty", "PutBack", "Sentinel"]

PAUSE = 0.2  # seconds between two looks, however much happens
WITHOUT_INOTIFY = 0.5
_FIRST_LOOK = 0.2  # most commands have ended by then
_AT_ONCE = 1_000  # things put back in one go
_ROUNDS = 100
_FEW = 200  # things that are looked at sooner than a thread has begun


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
        self._restoration = Restoration(root, aside)
        self._spared, self._told = spared, told
        self._state = NOTHING
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
            self._state = self._look(baseline=True)
            self._restoration.accept()

    def check(self) -> tuple[PutBack, ...]:
        """Puts back what differs."""
        with self._lock:
            found = self._check()
            self._untold += found
            return found

    async def close(self) -> None:
        await self._unwatch()
        with self._lock:
            self._restoration.close()

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
                with suppress(OSError), self._restoration.folder(path) as folder:
                    watch = _add(alarm, folder, inotify.NAMES | inotify.ATTRIB)
                    complete = complete and watch is not None
                    if watch is not None:
                        roles[watch] = seen.role
            for path, node in state.nodes.items():
                mask = inotify.NAMES | inotify.ATTRIB if node.kind == "folder" else inotify.CONTENT
                if node.kind in ("file", "folder"):
                    with suppress(OSError), self._restoration.held(path) as held:
                        watch = _add(alarm, held, mask)
                        complete = complete and watch is not None
                        roles.pop(watch or -1, None)
            self._armed = _places(state)
        return _Watched(roles, complete)

    # -- looking -----------------------------------------------------------------------------------

    def _look(self, *, baseline: bool) -> State:
        return look(self._restoration.root, self._state, baseline=baseline)

    @property
    def _small(self) -> bool:
        """Of what is known; before the first look nothing is."""
        return 0 < len(self._state.folders) + len(self._state.nodes) <= _FEW

    def _as_it_was(self) -> bool:
        """One look, where it is over at once. False: all has to be checked."""
        if not self._small or not self._lock.acquire(blocking=False):
            return False
        try:
            before, after = self._state, self._look(baseline=False)
            after = after._replace(whole=before.whole)
            if after.has_new_folders or not self._restoration.in_place():
                return False
            if _differences(before, after) or self._words(before, after):
                return False
            if any(_touched(before, after, path) for path in before.nodes):
                return False
            self._state = after
            return True
        finally:
            self._lock.release()

    def _check(self) -> tuple[PutBack, ...]:
        found = self._restoration.root_back()
        if not self._spared(".git"):
            found += self._restoration.git_back()
        before, after = self._state, self._look(baseline=False)
        found += self._words(before, after)
        differing = _differences(before, after)
        touched = [path for path in before.nodes if _touched(before, after, path)]
        if not differing and not touched:
            self._state = after._replace(whole=before.whole)
            return tuple(found)
        self._replaced = True
        for path in touched:
            with suppress(OSError):
                self._restoration.restore(path, before, after)
        for path in differing[:_AT_ONCE]:
            if self._spared(path):
                self._adopt(path)
                continue
            one = self._restoration.put_back(path, before, after)
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
            grown = self._look(baseline=True)
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
        before, now = self._state, self._look(baseline=False)
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
                why = "it steers agents by words; the user should read it"
                found.append(PutBack(shown(path), act_of(was, now), False, "", why))
        return found

    def _adopt(self, path: str) -> None:
        now, nodes = self._look(baseline=True), dict(self._state.nodes)
        for one in [one for one in nodes if f"{one}/".startswith(f"{path}/")]:
            del nodes[one]
        nodes |= {one: node for one, node in now.nodes.items() if f"{one}/".startswith(f"{path}/")}
        self._state = self._state._replace(nodes=nodes)


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
