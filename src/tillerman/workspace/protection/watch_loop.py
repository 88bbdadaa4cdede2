"""Waits for inotify events on protected files and triggers checks."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from tillerman.workspace.files import inotify
from tillerman.workspace.files.inotify import Inotify, InotifyEvent
from tillerman.workspace.protection.checker import Checker
from tillerman.workspace.protection.protected_names import matters
from tillerman.workspace.protection.protected_state import State

PAUSE = 0.05  # seconds between two reads of irrelevant events
WITHOUT_INOTIFY = 0.5
_PAUSES = (0.01, 0.2)  # between two rounds that restored something: the first, and the maximum
_NEW_FOLDER = inotify.CREATE | inotify.IS_FOLDER
_MOVED_FOLDER = inotify.MOVED_TO | inotify.IS_FOLDER


class _Watched(NamedTuple):
    roles: dict[int, str]  # of folders in which only some names matter
    folders: dict[int, str]  # paths of all watched folders
    complete: bool  # False: the system limit of watches is reached


class WatchLoop:
    """The loop. `report` is called after each check.

    `remount` is called when a mounted name was replaced from outside, and when a file appears whose
    name is `noticed`.
    """

    def __init__(
        self,
        checker: Checker,
        report: Callable[[], None],
        remount: Callable[[], Awaitable[None]] | None,
        noticed: Callable[[str], bool] | None,
    ) -> None:
        self._checker = checker
        self._report, self._remount, self._noticed = report, remount, noticed
        self._alarm: Inotify | None = None
        self._watched: _Watched | None = None
        self._armed: dict[str, tuple[int, int]] | None = None  # the watched folders
        self._checking = False
        self._other_names: set[str] = set()  # folders with changed names that do not matter
        self._has_more = False  # a folder was created since `pop_other_names`
        self.started = False
        self.idle = False  # no program runs: changes come from elsewhere
        self.has_grown = False  # there are new folders

    def is_quiet(self) -> bool:
        """Returns whether nothing happened since the last check, as far as the system reports."""
        alarm, watched = self._alarm, self._watched
        if alarm is None or watched is None or not watched.complete or self.has_grown:
            return False
        if self._checker.waits_for_git:
            return False
        return self._armed is not None and not self._checking and not alarm.pending()

    def pop_other_names(self) -> frozenset[str] | None:
        """Returns the folders in which names changed that do not matter, since the last call.

        None if something else may have happened.
        """
        alarm, watched = self._alarm, self._watched
        if alarm is None or watched is None or not watched.complete or not self.is_waiting():
            return None
        if self._has_more:
            self._has_more = False
            return None
        happened = alarm.read()
        if any(self._concerns(one, watched) for one in happened):
            alarm.put_back(happened)
            return None
        self._note_other_names(happened, watched)
        found, self._other_names = frozenset(self._other_names), set()
        return found

    def is_armed(self) -> bool:
        """Returns whether all known folders are watched."""
        return self._armed == _places(self._checker.state)

    def is_waiting(self) -> bool:
        """Like `is_armed`, and no check is running that could restore something."""
        return not self._checking and self.is_armed()

    async def run(self, delay: float) -> None:
        """Runs until it is cancelled, or until something changes while it is idle."""
        checker = self._checker
        if checker.partial:
            await asyncio.to_thread(checker.complete)
            self._report()
        await asyncio.sleep(delay)
        alarm = self._alarm = _open_alarm()
        self.started = True
        pause = _PAUSES[0]
        self._checking = True
        try:
            watched = await asyncio.to_thread(self._arm, alarm)
            while True:
                self._checking = True
                if self.idle and not checker.is_unchanged():
                    return
                found = () if self.idle else await asyncio.to_thread(checker.check)
                await self._remount_outside()
                self._report()
                if found or checker.changed:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _PAUSES[1])
                    watched = await asyncio.to_thread(self._arm, alarm)
                    continue
                pause = _PAUSES[0]
                if not self.is_armed():
                    watched = await asyncio.to_thread(self._arm, alarm)
                self._checking, self._watched = False, watched
                await self._until_it_matters(alarm, watched)
        finally:
            self._armed = self._alarm = self._watched = None
            self._other_names.clear()
            if alarm:  # closing is slow in the kernel; no caller has to wait for it
                asyncio.get_running_loop().run_in_executor(None, alarm.close)

    async def _until_it_matters(self, alarm: Inotify | None, watched: _Watched) -> None:
        if alarm is None:
            await asyncio.sleep(WITHOUT_INOTIFY)
            return
        pause = self._checker.pause()
        if not watched.complete:
            pause = min(pause or WITHOUT_INOTIFY, WITHOUT_INOTIFY)
        until = None if pause is None else time.monotonic() + pause
        while True:
            left = None if until is None else until - time.monotonic()
            if left is not None and (left <= 0 or not await alarm.wait(left)):
                return
            if left is None:
                await alarm.wait()
            happened = alarm.read()
            self._checking = True
            grown = any(_is_growth(one, watched.roles) for one in happened)
            self.has_grown |= grown
            self._has_more |= grown
            if self._noticed and self._remount and any(map(self._is_noticed, happened)):
                await self._remount()
            if grown and self._checker.waits_for_folders:
                return
            if not watched.complete or any(_matters(one, watched.roles) for one in happened):
                return
            self._note_other_names(happened, watched)
            self._checking = False
            await asyncio.sleep(PAUSE)

    def _concerns(self, one: InotifyEvent, watched: _Watched) -> bool:
        return (
            _matters(one, watched.roles) or _is_growth(one, watched.roles) or self._is_noticed(one)
        )

    def _note_other_names(self, happened: Sequence[InotifyEvent], watched: _Watched) -> None:
        self._other_names.update(watched.folders[one.watch] for one in happened)

    def _is_noticed(self, one: InotifyEvent) -> bool:
        appeared = one.mask & (inotify.CREATE | inotify.MOVED_TO)
        return bool(appeared and self._noticed and self._noticed(os.fsdecode(one.name)))

    def _arm(self, alarm: Inotify | None) -> _Watched:
        """Adds watches; existing ones stay."""
        checker = self._checker
        if alarm is None:
            self._armed = _places(checker.state)
            return _Watched({}, {}, False)
        with checker.lock:
            state, folders = checker.state, checker.restorer.folders
            roles: dict[int, str] = {}
            watched: dict[int, str] = {}
            complete = True
            for path, seen in state.folders.items():
                with suppress(OSError), folders.folder(path) as folder:
                    watch = _add(alarm, folder, inotify.NAMES | inotify.ATTRIB)
                    complete = complete and watch is not None
                    if watch is not None:
                        roles[watch], watched[watch] = seen.role, path
            for path, node in state.nodes.items():
                mask = inotify.NAMES | inotify.ATTRIB if node.kind == "folder" else inotify.CONTENT
                if node.kind in ("file", "folder"):
                    with suppress(OSError), folders.held(path) as held:
                        watch = _add(alarm, held, mask)
                        complete = complete and watch is not None
                        roles.pop(watch or -1, None)
            self._armed = _places(state)
        return _Watched(roles, watched, complete)

    async def _remount_outside(self) -> None:
        """Remounts, then restores what changed before: until then programs could write there."""
        outside = self._checker.pop_outside()
        if outside and self._remount:
            await self._remount()
            await asyncio.to_thread(self._checker.check_unsure, outside)


def _open_alarm() -> Inotify | None:
    try:
        return Inotify()
    except OSError:
        return None


def _places(state: State) -> dict[str, tuple[int, int]]:
    return {path: (seen.mark.device, seen.mark.inode) for path, seen in state.folders.items()}


def _add(alarm: Inotify, held: int, mask: int) -> int | None:
    """Adds a watch. None at a system limit; -1 for a file that may not be read or watched."""
    try:
        return alarm.add_open(held, mask)
    except OSError as error:
        return None if error.errno in (errno.ENOSPC, errno.ENOMEM) else -1


def _matters(one: InotifyEvent, roles: dict[int, str]) -> bool:
    role = roles.get(one.watch)
    if role == "git" and _is_new_folder(one):
        return True  # perhaps of a submodule or a worktree
    return role in (None, "empty") or not one.name or matters(os.fsdecode(one.name), role)


def _is_growth(one: InotifyEvent, roles: dict[int, str]) -> bool:
    return _is_new_folder(one) or roles.get(one.watch) == "empty"


def _is_new_folder(one: InotifyEvent) -> bool:
    return one.mask & _NEW_FOLDER == _NEW_FOLDER or one.mask & _MOVED_FOLDER == _MOVED_FOLDER
