"""Decides which changes of protected files were made by a git checkout and may stay.

A checkout writes files, then the index, then HEAD. Files that it changed are adopted once HEAD
contains them and has them from a commit known at the start. Until then a change is deferred only
while git may still be working on it; then it is undone.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Literal, NamedTuple

from tillerman.workspace.protection.differences import files_of
from tillerman.workspace.protection.git.known_commits import Files, KnownCommits
from tillerman.workspace.protection.protected_state import State
from tillerman.workspace.protection.restore.restorer import Restorer

GRACE = 0.4  # seconds after git wrote the index
LONGEST_UNKNOWN = 0.8  # for content that no recent known commit had
_LONGEST_QUIET = 10.0  # for content that one had, while the index is unchanged
_LONGEST = 60.0  # for the same, in total

Decision = Literal["undo", "adopt", "wait"]


class CheckoutDecision(NamedTuple):
    decision: Decision
    files: Files | None = None  # that were decided on


class _Pending(NamedTuple):
    first: float
    since: float  # since when the index is unchanged
    mark: tuple[int, int]


class Checkouts:
    """The pending checkouts of one work tree. Use it from one thread at a time."""

    def __init__(self, commits: KnownCommits, restorer: Restorer) -> None:
        self.commits = commits
        self._restorer = restorer
        self._pending: dict[str, _Pending] = {}

    @property
    def pending(self) -> bool:
        return bool(self._pending)

    def forget_others(self, differing: Collection[str]) -> None:
        """Drops pending paths that no longer differ."""
        self._pending = {path: one for path, one in self._pending.items() if path in differing}

    def decide(self, path: str, before: State, *, last: bool) -> CheckoutDecision:
        """Decides on a change. `last`: no program runs any more, so nothing is deferred."""
        commits = self.commits
        if path.startswith(".git/") or not commits.may_have_moved:
            return CheckoutDecision("undo")
        busy, mark = commits.is_busy(GRACE), commits.index_mark  # before HEAD is read
        had, has = files_of(before, path), self._restorer.files_at(path)
        if has is None or not commits.has(path, had):
            return CheckoutDecision("undo", has)
        begun = has == {} and self._restorer.is_empty(path)  # a folder whose files follow
        gone = has == {} and not begun
        if gone and path not in before.nodes:
            return CheckoutDecision("wait", has)  # removed: the next check sees no difference
        if not had and not commits.tracks(path):
            return CheckoutDecision("undo", has)
        if had == has and not begun and not gone:
            # a mode that git does not track, or a checkout that was reverted meanwhile
            waits = busy and not last and self._may_wait(path, mark, known=False)
            return CheckoutDecision("wait" if waits else "undo", has)
        if not begun and commits.leads_to(path, has):
            return CheckoutDecision("adopt", has)
        if last:
            return CheckoutDecision("undo", has)
        busy = busy or self._restorer.files_at(path) != has or commits.index_holds(path, has)
        known = not begun and commits.had(path, has)
        waits = busy and self._may_wait(path, mark, known=known)
        return CheckoutDecision("wait" if waits else "undo", has)

    def _may_wait(self, path: str, mark: tuple[int, int], *, known: bool) -> bool:
        """Returns whether to wait for a checkout; longer if a known commit had the content."""
        now = time.monotonic()
        pending = self._pending.get(path) or _Pending(now, now, mark)
        if pending.mark != mark:  # another checkout
            pending = pending._replace(since=now, mark=mark)
        self._pending[path] = pending
        if known:
            return now < min(pending.since + _LONGEST_QUIET, pending.first + _LONGEST)
        return now < min(pending.since + GRACE, pending.first + LONGEST_UNKNOWN)
