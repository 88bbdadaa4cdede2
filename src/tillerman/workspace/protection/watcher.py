"""Watches the protected files of a workspace and restores them when they change.

A shell can write what no file tool may: files that start programs and configure agents. Before the
first program runs, all of them are scanned and stored. From then on the system reports changes of
those names (inotify). A difference is restored; the replacement is quarantined and reported. In a
git config only settings that can run a program are removed. Instruction files of agents
(`AGENTS.md`) are reported, but not restored. So are files that come with a new folder, such as a
clone. The writer is unknown, except for names that are mounted read-only in every program of the
session: a change there came from outside, and is adopted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from tillerman.workspace.protection.checker import Checker
from tillerman.workspace.protection.checkouts import LONGEST_UNKNOWN
from tillerman.workspace.protection.known_state import SavedState
from tillerman.workspace.protection.protected_state import NOTHING, State
from tillerman.workspace.protection.restore.accepted import Accepted
from tillerman.workspace.protection.restore.quarantine import Quarantine
from tillerman.workspace.protection.restore.restorer import Restorer
from tillerman.workspace.protection.restore.undone import Undone
from tillerman.workspace.protection.watch_loop import PAUSE, WatchLoop

__all__ = ["Hold", "Undone", "Watcher"]

FEW_FOLDERS = 500  # of a first scan; they take some milliseconds
_STARTS = 0.3  # seconds from the initial scan of a session to the next one
IDLE = 60.0  # seconds that a watch stays armed for the next program
_LONGEST_WAIT = 2 * LONGEST_UNKNOWN  # seconds that the end of a turn may wait for git


class Hold:
    """Collects what was undone, from before a program starts until it ends."""

    def __init__(self, watcher: Watcher, *, collects: bool) -> None:
        self._watcher = watcher
        self._collects = collects
        self.found: list[Undone] = []

    def add(self, found: Iterable[Undone]) -> None:
        """Adds changes; one that was restored later is no longer reported as not restored."""
        if self._collects:
            new = list(found)
            restored = {one.path for one in new if one.restored}
            earlier = [one for one in self.found if one.restored or one.path not in restored]
            self.found = earlier + new

    async def end(self) -> tuple[Undone, ...]:
        await self._watcher._end(self)
        return tuple(self.found)


class Watcher:
    """Watches one workspace. `allowed`: paths that a rule lets agents write.

    `report` receives what was undone. `remount` is called when a mounted name was replaced from
    outside, and when a file appears whose name is `noticed`. `early` is the state seen before an
    already running program.
    """

    def __init__(
        self,
        root: Path,
        quarantine: Path,
        *,
        role: str = "work",
        skipped: frozenset[str] = frozenset(),
        allowed: Callable[[str], bool] = lambda path: False,
        report: Callable[[tuple[Undone, ...]], None] = lambda found: None,
        accepted: Path | None = None,
        remount: Callable[[], Awaitable[None]] | None = None,
        noticed: Callable[[str], bool] | None = None,
        saved: Path | None = None,
        early: State | None = None,
    ) -> None:
        self.root = root
        self._early = early
        self._send = report
        self._saved = SavedState(saved)  # for a harness that reconnects
        known = Accepted(accepted, root) if accepted else None
        restorer = Restorer(root, Quarantine(quarantine, root), known)
        self._checker = Checker(
            root, restorer, self._saved, role=role, skipped=skipped, allowed=allowed
        )
        self._loop = WatchLoop(self._checker, self._report, remount, noticed)
        self._task: asyncio.Task[None] | None = None
        self._idle_end: asyncio.TimerHandle | None = None
        self._resumed = False
        self._turn = asyncio.Lock()
        self._holds: list[Hold] = []

    @property
    def mounted(self) -> frozenset[str]:
        """The names that are read-only in every program."""
        return self._checker.mounted

    @mounted.setter
    def mounted(self, paths: frozenset[str]) -> None:
        self._checker.mounted = paths

    async def begin(self, *, collects: bool = True) -> Hold:
        """Starts a hold before a program starts. End it when all its processes have ended."""
        hold = Hold(self, collects=collects)
        async with self._turn:
            if not self._holds and not self._resumed:
                if not self._continue_idle():
                    await self._unwatch()
                    await self._accept()
            elif not self._is_unchanged():
                await asyncio.to_thread(self._checker.check)
                self._report()
            self._resumed = False
            self._holds.append(hold)
            if self._task is None:
                # an agent takes longer to start, and needs the CPU for that
                self._watch(0.0 if collects else _STARTS)
        return hold

    def knows(self, path: str) -> bool:
        """Returns whether a path existed at the scan; always True before the first scan."""
        state = self._checker.state
        return state is NOTHING or path in state.nodes or path in state.folders

    async def restore_changes(self) -> None:
        """Restores what differs, and adds what lies in new folders."""
        if self._loop.is_quiet():
            return
        if self._task and not self._loop.started:
            return  # the first check is about to start
        self._loop.has_grown = False
        checker = self._checker
        async with self._turn:
            if not self._holds:
                return
            if checker.is_unchanged() and not checker.state.has_new_folders:
                return
            await asyncio.to_thread(checker.check_last, last=False)
            limit = time.monotonic() + _LONGEST_WAIT
            while checker.waits_for_git and time.monotonic() < limit:
                await asyncio.sleep(PAUSE)
                await asyncio.to_thread(checker.check_last, last=False)
            self._report()

    async def close(self) -> None:
        """Stops watching. Open holds continue in another harness, from the saved state."""
        if self._idle_end:
            self._idle_end.cancel()
        await self._unwatch()
        if not self._holds:
            self._saved.remove()
        if self._holds and not self._checker.is_unchanged():
            await asyncio.to_thread(self._checker.check)
            self._report()
        self._checker.close()

    def accept(self) -> None:
        """Accepts the current state as correct."""
        self._checker.accept()

    def resume(self) -> bool:
        """Resumes from the state that an earlier harness saved, if there is one."""
        self._resumed = self._checker.resume()
        return self._resumed

    def check(self) -> tuple[Undone, ...]:
        """Restores what differs."""
        return self._checker.check()

    async def _end(self, hold: Hold) -> None:
        checker = self._checker
        async with self._turn:
            if hold not in self._holds:
                return
            others = len(self._holds) > 1
            stays = self._loop.is_armed() if others else self._loop.is_waiting()
            if not (stays and self._is_unchanged()):
                await self._unwatch()
                if not checker.is_unchanged():
                    await asyncio.to_thread(checker.check_last, last=not others)
            self._report()
            self._holds.remove(hold)
            if not self._holds:
                if not checker.is_small:  # checks are slow: the next program waits for one
                    await self._unwatch()
                    self._saved.remove()
                    return
                self._idle()
            if self._task is None:
                self._watch()

    def _idle(self) -> None:
        """Stops restoring, but leaves the watch armed for the next command.

        Most commands are followed by another, and arming takes longer than many of them run.
        """
        self._loop.idle = True
        self._idle_end = asyncio.get_running_loop().call_later(IDLE, self._end_idle)

    def _end_idle(self) -> None:
        self._saved.remove()
        if self._task:
            self._task.cancel()

    def _continue_idle(self) -> bool:
        """Reuses the armed watch of an earlier program, if nothing changed."""
        if self._idle_end:
            self._idle_end.cancel()
            self._idle_end = None
        if self._task is None or self._task.done() or not self._is_unchanged():
            return False
        self._loop.idle = False
        return True

    def _is_unchanged(self) -> bool:
        return self._checker.is_unchanged(self._loop.pop_other_names)

    async def _accept(self) -> None:
        """Accepts the state. The watch task completes an early scan: its program already runs."""
        checker = self._checker
        if self._early:
            checker.accept_early(self._early)
            self._early = None
        elif checker.state is NOTHING:
            checker.accept(most=FEW_FOLDERS)
            if checker.partial:
                await asyncio.to_thread(checker.complete)
        elif checker.is_small:
            checker.accept()
        else:
            await asyncio.to_thread(checker.accept)

    def _watch(self, delay: float = 0.0) -> None:
        self._task = asyncio.create_task(self._loop.run(delay))

    async def _unwatch(self) -> None:
        if task := self._task:
            task.cancel()
            await asyncio.wait({task})
            self._task = None
            if not task.cancelled():
                task.result()
        self._loop.idle = False

    def _report(self) -> None:
        found = self._checker.reports()
        if found:
            for hold in self._holds:
                hold.add(found)
            self._send(found)
