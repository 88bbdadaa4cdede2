"""Compares the protected files of a workspace with their known state and restores them.

A difference is adopted (a rule allows it, the user took it back, a checkout made it, or it came
from outside of all mounts), deferred for a short time, or undone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from tillerman.core.agent_files import MOUNT_POINTS
from tillerman.workspace.files.file_names import shown
from tillerman.workspace.protection.checkouts import GRACE, Checkouts
from tillerman.workspace.protection.differences import (
    changed_instructions,
    differences,
    files_of,
    has_other_mode,
    is_git_config,
    is_hook_sample,
    is_inside,
    is_of_git,
    is_touched,
    is_worktree_link,
    state_digest,
    still_made,
)
from tillerman.workspace.protection.git.known_commits import Files, KnownCommits
from tillerman.workspace.protection.known_state import KnownState, SavedState
from tillerman.workspace.protection.mark_comparison import compare_marks
from tillerman.workspace.protection.protected_names import MOST_FOLDERS, rescan
from tillerman.workspace.protection.protected_state import (
    PathNode,
    State,
    mark_of,
    parent_of,
)
from tillerman.workspace.protection.restore.failures import Failures
from tillerman.workspace.protection.restore.restorer import (
    AcceptedMeanwhile,
    ChangedMeanwhile,
    Restorer,
)
from tillerman.workspace.protection.restore.undone import Undone

_WHILE_GIT_WORKS = 0.05  # seconds between two checks
_AT_ONCE = 1_000  # files restored per check
_ROUNDS = 100
_FEW = 200  # at most this many paths are checked faster than a thread starts
_TICK = 10_000_000  # ns that the clock of a file system may lag


class Checker:
    """Checks one workspace; public methods may be called from any thread."""

    def __init__(
        self,
        root: Path,
        restorer: Restorer,
        saved: SavedState,
        *,
        role: str,
        skipped: frozenset[str],
        allowed: Callable[[str], bool],
    ) -> None:
        self._root = root
        self.restorer = restorer
        self._known = KnownState(restorer.folders, saved, role=role, skipped=skipped)
        self._role, self._skipped, self._allowed = role, skipped, allowed
        self.mounted: frozenset[str] = frozenset()  # read-only in every program
        self.lock = threading.Lock()
        self.partial = False  # deeper folders still have to be scanned
        self.changed = False  # something was replaced, or has to be checked again
        self._early: State | None = None
        self._empty: dict[str, float] = {}  # names that may be empty at first -> first seen
        self._checkouts: Checkouts | None = None
        self._failures = Failures()
        self._outside: set[str] = set()  # mounted names that changed
        self._unsure: frozenset[str] = frozenset()  # the same, while they are remounted
        self._reports: list[Undone] = []

    def close(self) -> None:
        with self.lock:
            self.restorer.folders.close()

    def reports(self) -> tuple[Undone, ...]:
        """Returns the changes that were not fetched yet."""
        with self.lock:
            found, self._reports = tuple(self._reports), []
        return found

    def pause(self) -> float | None:
        """Returns seconds until the next check without an event; None if none is needed."""
        if self._checkouts and self._checkouts.pending:
            return _WHILE_GIT_WORKS
        if self._empty:
            return GRACE
        return self._failures.pause() if self._failures else None

    @property
    def state(self) -> State:
        """The state that counts as correct."""
        return self._known.state

    @property
    def waits_for_git(self) -> bool:
        return bool(self._checkouts and self._checkouts.pending)

    @property
    def waits_for_folders(self) -> bool:
        """Returns whether a restore failed, perhaps because its folder was removed."""
        return bool(self._failures)

    @property
    def is_small(self) -> bool:
        """Returns whether the known state is small; False before the first scan."""
        return 0 < len(self.state.folders) + len(self.state.nodes) <= _FEW

    # -- known state -------------------------------------------------------------------------------

    def accept(self, *, most: int = MOST_FOLDERS) -> None:
        """Accepts the current state as correct."""
        with self.lock:
            self._known.state = still_made(self.state, self._known.scan(baseline=True, most=most))
            self.partial = most < MOST_FOLDERS and not self.state.whole
            self.restorer.accept()
            self._record_commits()
            self._known.save()

    def accept_early(self, early: State) -> None:
        """Accepts the state seen before an already running program; `complete` adds the rest."""
        with self.lock:
            self._known.state, self._early, self.partial = early, early, True
            self.restorer.accept()
            self._record_commits(early.at - _TICK)

    def resume(self) -> bool:
        """Resumes from the state that an earlier harness saved, if there is one."""
        with self.lock:
            if not self._known.load():
                return False
            self.restorer.accept()
        return True

    def complete(self) -> None:
        """Adds deeper folders and refs. Changes since an early scan are reported."""
        with self.lock:
            self._complete()

    def _complete(self) -> None:
        if self._checkouts:
            self._checkouts.commits.read_refs()
        if not self.partial:
            return
        early, self._early, self.partial = self._early, None, False
        new = self._known.add_new_folders()
        if early:
            why = "it changed while the session started"
            late = [path for path, node in new.items() if node.mark.changed > early.at - _TICK]
            self._reports += [
                Undone(shown(path), "changed", False, "", why)
                for path in late
                if not any(other.startswith(f"{path}/") for other in late)
            ]
        self._known.save()

    def _record_commits(self, until: int | None = None) -> None:
        if self._role == "work" and self._checkouts is None:  # a program may have created others
            self._checkouts = Checkouts(KnownCommits(self._root, until), self.restorer)

    # -- checks ------------------------------------------------------------------------------------

    def is_unchanged(
        self, only_other_names: Callable[[], Collection[str] | None] = lambda: None
    ) -> bool:
        """Checks once, if that is fast. False: a full check is needed.

        `only_other_names` returns the folders in which only names changed that do not matter, as
        reported by the system until now; None if something else may have changed.
        """
        if self.partial or not self.is_small or not self.lock.acquire(blocking=False):
            return False
        try:
            if self.changed or self.pause() is not None:
                return False  # marks may be of what was not looked at, or was deferred
            before = self.state
            if seen := self._renewed(before, only_other_names):
                self._known.state = seen
                return True
            same = rescan(
                self.restorer.folders.root, before, role=self._role, skipped=self._skipped
            )
            if same and not same.has_new_folders and self.restorer.folders.in_place():
                self._known.state = same
                return True
            after = self._known.scan(baseline=False)
            after = after._replace(whole=before.whole)
            if after.has_new_folders or not self.restorer.folders.in_place():
                return False
            if differences(before, after) or changed_instructions(before, after):
                return False
            if any(is_touched(before, after, path) for path in before.nodes):
                return False
            self._known.state = after
            return True
        finally:
            self.lock.release()

    def _renewed(
        self, before: State, only_other_names: Callable[[], Collection[str] | None]
    ) -> State | None:
        """Returns the state with new marks if no folder needs to be listed for that.

        Marks are read before the reports: a later change is in neither.
        """
        seen = compare_marks(self.restorer.folders.root, before, time.time_ns())
        if seen is None or before.has_new_folders or not self.restorer.folders.in_place():
            return None
        if seen.changed or seen.unsure:
            other = only_other_names()
            if other is None or not seen.changed.issubset(other):
                return None
        return seen.state

    def check(self) -> tuple[Undone, ...]:
        """Restores what differs."""
        with self.lock:
            self.changed = False
            self._complete()
            found = self._check(last=False)
            self._reports += found
            return found

    def check_unsure(self, paths: frozenset[str]) -> None:
        """Like `check`, after a remount: before it, programs could write to these names."""
        self._unsure = paths
        try:
            self.check()
        finally:
            self._unsure = frozenset()

    def check_last(self, *, last: bool) -> None:
        """Checks until nothing differs, then adds what lies in new folders.

        `last`: no program runs any more.
        """
        with self.lock:
            self._complete()
            self._failures.report_soon = True
            for _ in range(_ROUNDS):
                self.changed = False
                found = self._check(last=last)
                self._reports += found
                if not found and not self.changed:
                    break
            self._failures.report_soon = False
            if not self.state.has_new_folders:
                return
            new = self._known.add_new_folders()
            self._known.state = self.state._replace(made=self.state.made | new.keys())
            why = "it came with a folder that is new"
            self._reports += [
                Undone(shown(path), "created", False, "", why)
                for path in new
                if parent_of(path)[0] not in new and parent_of(path)[1] != "commondir"
            ]
            self._known.save()

    def pop_outside(self) -> frozenset[str]:
        """Returns mounted names that were replaced from outside since the last call."""
        with self.lock:
            found, self._outside = frozenset(self._outside), set()
        return found

    def _check(self, *, last: bool) -> tuple[Undone, ...]:
        found: list[Undone] = []
        if self._role == "work":
            found += self.restorer.folders.restore_root()
            if not self._allowed(".git"):
                found += self.restorer.folders.restore_git()
        before, after = self.state, self._known.scan(baseline=False)
        found += changed_instructions(before, after)
        differing = differences(before, after)
        touched = [
            path
            for path in before.nodes
            if is_touched(before, after, path) and not is_git_config(path, after)
        ]
        self._forget_others(set(differing))
        if not differing and not touched:
            self._known.state = after._replace(whole=before.whole)
            return tuple(found)
        for path in touched:
            with suppress(OSError, AcceptedMeanwhile, ChangedMeanwhile):
                self.restorer.restore(path, before, expected=files_of(before, path))
                self.changed = True
        for path in differing[:_AT_ONCE]:
            one = self._resolve(path, before, after, last=last)
            if one and not any(one.path.startswith(f"{other.path}/") for other in found):
                found.append(one)
        self._known.refresh_marks()
        self._known.save()
        return tuple(found)

    def _forget_others(self, differing: set[str]) -> None:
        self._failures.forget_others(differing)
        self._empty = {path: since for path, since in self._empty.items() if path in differing}
        if self._checkouts:
            self._checkouts.forget_others(differing)

    def _resolve(self, path: str, before: State, after: State, *, last: bool) -> Undone | None:
        """Resolves a difference; returns what has to be reported now."""
        one = self._decide(path, before, after, last=last)
        if one is None or one.restored:
            self._failures.remove(path)
            self.changed |= one is not None
            return one
        was, now = before.nodes.get(path), after.nodes.get(path)
        report = self._failures.add(path, was, now)
        self.changed |= report is not False
        return one if report else None

    def _decide(self, path: str, before: State, after: State, *, last: bool) -> Undone | None:
        """Decides on a difference: adopt it, defer it, or undo it."""
        if self._allowed(path):
            self._adopt(path)
            return None
        if self._is_mounted(path) and path not in self._unsure:
            self._outside.add(path)
            self._adopt(path)
            return None
        if self._is_still_empty(path, before, after, last=last):
            return None
        was, now = before.nodes.get(path), after.nodes.get(path)
        if now is None and path in before.made:
            self._adopt(path)
            return None
        if self.restorer.is_accepted(path) and self._adopt_accepted(path):
            return None
        if is_git_config(path, after):
            if now is not None and now.kind == "file":
                return self._disarm(path, was)
            return self._undo(path, before, after, None)
        if is_hook_sample(path, after):
            self._adopt(path)
            return None
        if self._adopt_hooks(path, before, after) or self._adopt_worktree(path, before):
            return None
        return self._decide_checkout(path, before, after, last=last)

    def _decide_checkout(
        self, path: str, before: State, after: State, *, last: bool
    ) -> Undone | None:
        if self._checkouts is None:
            return self._undo(path, before, after, None)
        verdict = self._checkouts.decide(path, before, last=last)
        if verdict.decision == "wait":
            return None
        if verdict.decision == "adopt" and verdict.files is not None:
            if not self._adopt_files(path, verdict.files):
                self.changed = True  # it has changed again by now
            return None
        return self._undo(path, before, after, verdict.files)

    def _undo(
        self, path: str, before: State, after: State, expected: Files | None
    ) -> Undone | None:
        try:
            return self.restorer.undo(path, before, after, expected)
        except AcceptedMeanwhile:
            self._adopt_accepted(path)
        except ChangedMeanwhile:
            pass
        self.changed = True  # has to be checked again
        return None

    def _is_still_empty(self, path: str, before: State, after: State, *, last: bool) -> bool:
        """Returns whether it is new and empty: a `commondir` that git has not yet written and that
        it refuses so, or, for a short time, a mount point of a sandbox."""
        begun = is_worktree_link(path, after, b"")
        expected = begun or path in MOUNT_POINTS
        if path in before.nodes or not expected or not self.restorer.is_empty(path):
            self._empty.pop(path, None)
            return False
        since = self._empty.setdefault(path, time.monotonic())
        return not last and (begun or time.monotonic() < since + GRACE)

    def _is_mounted(self, path: str) -> bool:
        return any(is_inside(path, top) for top in self.mounted)

    def _disarm(self, path: str, known: PathNode | None) -> Undone | None:
        try:
            undone, content = self.restorer.disarm(path, known)
            with self.restorer.folders.held(path) as held:
                status = os.fstat(held)
        except OSError as error:
            return Undone(shown(path), "changed", False, "", error.strerror or str(error))
        mode = known.mode if known else status.st_mode & 0o777
        if known and status.st_mode & 0o7777 != known.mode:
            with suppress(OSError), self.restorer.folders.held(path) as held:
                Path(f"/proc/self/fd/{held}").chmod(known.mode)
        owner = (status.st_uid, status.st_gid)
        node = PathNode("file", mode, owner, status.st_mtime_ns, content, mark_of(status))
        self._known.set_node(path, node)
        self.changed = True
        return undone

    # -- adopting changes --------------------------------------------------------------------------

    def _adopt(self, path: str, is_right: Callable[[State], bool] = lambda seen: True) -> bool:
        """Adopts what lies there if `is_right` accepts what was seen."""
        adopted = self._known.adopt(path, is_right)
        self.changed |= adopted
        return adopted

    def _adopt_accepted(self, path: str) -> bool:
        """Adopts what the user took back or another session restored."""

        def is_right(seen: State) -> bool:
            if has_other_mode(self.state, seen, path):
                return False
            return self.restorer.accepts(path, state_digest(seen, path))

        return self._adopt(path, is_right)

    def _adopt_files(self, path: str, files: Files) -> bool:
        return self._adopt(path, lambda seen: files_of(seen, path) == files)

    def _adopt_hooks(self, path: str, before: State, after: State) -> bool:
        """Adopts the folder that `git init` creates; its content is decided on separately."""
        if path in before.nodes or not is_of_git(path, after, ("hooks",)):
            return False
        node = after.nodes[path]
        if node.kind != "folder":
            return False
        self._known.set_node(path, node)
        self.changed = True
        return True

    def _adopt_worktree(self, path: str, before: State) -> bool:
        """Adopts what `git worktree add` creates."""
        if path in before.nodes or parent_of(path)[1] != "commondir":
            return False
        return self._adopt(path, lambda seen: is_worktree_link(path, seen))
