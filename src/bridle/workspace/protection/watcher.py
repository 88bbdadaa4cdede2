"""Watches the protected names of a workspace, and has restored what changes there.

A shell can write what no file tool may: files that start programs and configure agents. Before the
first program runs, all of them are looked at and kept. From then on the system reports what happens
to those names (inotify), and what differs is restored; what was there instead is kept and reported.
Of a git config only settings that can run a program are removed. Files that instruct an agent
(`AGENTS.md`) are left as they are, and reported. So is what comes with a folder that is itself new,
a clone for example. Who wrote is not known, but for names that are mounted read-only in every
program of the session: a change there came from outside, and is taken over.
"""

from __future__ import annotations

import asyncio
import errno
import os
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from bridle.workspace import inotify
from bridle.workspace.file_names import shown
from bridle.workspace.inotify import Happening, Inotify
from bridle.workspace.protection.accepted import Accepted
from bridle.workspace.protection.known_commits import Files, KnownCommits, git_mode
from bridle.workspace.protection.protected_names import (
    MOST_FOLDERS,
    NOTHING,
    Node,
    State,
    look,
    mark_of,
    matters,
    parent_of,
)
from bridle.workspace.protection.quarantine import Quarantine
from bridle.workspace.protection.restore import AcceptedMeanwhile, Restorer, Undone, act_of

__all__ = ["Hold", "Undone", "Watcher"]

PAUSE = 0.05  # seconds between two looks at events that do not matter
WITHOUT_INOTIFY = 0.5
# An agent's own sandbox (Codex) makes these, empty, to mount over them: without them it fails.
_MOUNT_POINTS = frozenset({".codex", ".agents", ".git"})
_GRACE = 0.4  # seconds
_STARTS = 0.3  # seconds until a session's first look, after the one that it begins with
_PAUSES = (0.01, 0.2)  # between two rounds that restored something: the first, and the longest
_AT_ONCE = 1_000  # things restored in one go
_ROUNDS = 100
_NEW_FOLDER = inotify.CREATE | inotify.IS_FOLDER
_MOVED_FOLDER = inotify.MOVED_TO | inotify.IS_FOLDER
_TRIES = 3  # rounds until it is reported that something cannot be restored
_FEW = 200  # things that are looked at sooner than a thread has begun
_FEW_FOLDERS = 500  # of a first look; they take some milliseconds
_LONGEST_CHECKOUT, _LONGEST_UNKNOWN = 10.0, 2.0  # seconds that git may be at work
_TICK = 10_000_000  # ns that the clock of file systems may be late


class Hold:
    """From before a program starts until it ends: what was undone meanwhile."""

    def __init__(self, watcher: Watcher, *, collects: bool) -> None:
        self._watcher = watcher
        self._collects = collects
        self.found: list[Undone] = []

    def add(self, found: Iterable[Undone]) -> None:
        if self._collects:
            self.found += found

    async def end(self) -> tuple[Undone, ...]:
        await self._watcher._end(self)
        return tuple(self.found)


class Watcher:
    """Of one workspace. `allowed`: paths that a rule lets agents write. `report` gets what was
    undone. `remount` is called when a mounted name was replaced from outside, and when something
    appears whose name is `noticed`. `early` is what was seen before a program that runs already."""

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
        self._noticed = noticed
        known = Accepted(accepted, root) if accepted else None
        self._restorer = Restorer(root, Quarantine(quarantine, root), known)
        self._role, self._skipped = role, skipped
        self._allowed, self._report, self._remount = allowed, report, remount
        self.mounted: frozenset[str] = frozenset()  # read-only in every program
        self._state = NOTHING
        self._saved = saved  # where the state is kept for a harness that comes back
        self._resumed = False
        self._partial = False  # deeper folders are still to be looked at
        self._changed = False  # files that are watched were replaced
        self._empty: dict[str, float] = {}  # since when
        self._commits: KnownCommits | None = None
        self._in_git: dict[str, _Pending] = {}  # what git may be about to check out
        self._ending = False
        self._failures: Counter[str] = Counter()  # of paths that could not be restored yet
        self._outside: set[str] = set()  # mounted names that changed
        self._unsure: set[str] = set()  # the same, while they are mounted again
        self._unreported: list[Undone] = []
        self._lock = threading.Lock()
        self._turn = asyncio.Lock()
        self._holds: list[Hold] = []
        self._task: asyncio.Task[None] | None = None
        self._armed: dict[str, tuple[int, int]] | None = None  # the folders that are watched
        self._alarm: Inotify | None = None
        self._watched: _Watched | None = None
        self._started = False  # to watch
        self._checking = False
        self._grown = False  # there are new folders

    # -- for the harness ---------------------------------------------------------------------------

    async def begin(self, *, collects: bool = True) -> Hold:
        """Before a program starts. End the hold when all its processes are gone."""
        hold = Hold(self, collects=collects)
        async with self._turn:
            if not self._holds and not self._resumed:
                await self._accept()
            elif not self._as_it_was():
                await asyncio.to_thread(self.check)
                self._tell()
            self._resumed = self._ending = False
            self._holds.append(hold)
            if self._task is None:
                # an agent takes longer than that to start, and has the machine to itself
                delay = 0.0 if collects else _STARTS
                self._task = asyncio.create_task(self._watch(delay))
        return hold

    def knows(self, path: str) -> bool:
        """Whether it was there when it was looked at; of all, before the first look."""
        state = self._state
        return state is NOTHING or path in state.nodes or path in state.folders

    async def settle(self) -> None:
        """Restores what differs, and takes in what lies in folders that are new."""
        if self._is_quiet():
            return
        if self._task and self._alarm is None and not self._started:
            return  # the first look is about to be
        self._grown = False
        async with self._turn:
            if self._holds and not (self._as_it_was() and not self._state.has_new_folders):
                await asyncio.to_thread(self._last_check)
                limit = time.monotonic() + _LONGEST_UNKNOWN
                while self._in_git and time.monotonic() < limit:
                    await asyncio.sleep(PAUSE)
                    await asyncio.to_thread(self._last_check)
                self._tell()

    def _is_quiet(self) -> bool:
        """Nothing happened since the last look, as far as the system reports."""
        alarm, watched = self._alarm, self._watched
        if alarm is None or watched is None or not watched.complete or self._grown:
            return False
        if self._in_git:
            return False
        return self._armed is not None and not self._checking and not alarm.pending()

    async def _end(self, hold: Hold) -> None:
        async with self._turn:
            if hold not in self._holds:
                return
            others = len(self._holds) > 1
            self._ending = not others
            if not (others and self._as_it_was() and self._armed == _places(self._state)):
                await self._unwatch()
                if not self._as_it_was():
                    await asyncio.to_thread(self._last_check)
            self._tell()
            self._holds.remove(hold)
            if not self._holds and self._saved:
                self._saved.unlink(missing_ok=True)
            if self._holds and self._task is None:
                self._task = asyncio.create_task(self._watch())

    async def _accept(self) -> None:
        """The rest of an early look is left to the task that watches: its program runs already."""
        if self._early:
            with self._lock:
                self._state, self._partial = self._early, True
                self._restorer.accept()
                self._note_commits(self._early.at - _TICK)
        elif self._state is NOTHING:
            self.accept(most=_FEW_FOLDERS)
            if self._partial:
                await asyncio.to_thread(self._complete)
        elif self._small:
            self.accept()
        else:
            await asyncio.to_thread(self.accept)

    def accept(self, *, most: int = MOST_FOLDERS) -> None:
        """What is there now is as it should be."""
        with self._lock:
            self._state = self._look(baseline=True, most=most)
            self._partial = most < MOST_FOLDERS and not self._state.whole
            self._restorer.accept()
            self._note_commits()
            self._save()

    def _note_commits(self, until: int | None = None) -> None:
        if self._role == "work" and self._commits is None:  # a program may have made others
            self._commits = KnownCommits(self.root, until)

    def _complete(self) -> None:
        """Takes in deeper folders, once. What changed there since an early look is reported."""
        with self._lock:
            self._take_deeper()

    def _take_deeper(self) -> None:
        if not self._partial:
            return
        early, self._early, self._partial = self._early, None, False
        new = self._grow()
        if early:
            why = "it changed while the session started"
            late = [path for path, node in new.items() if node.mark.changed > early.at - _TICK]
            self._unreported += [
                Undone(shown(path), "changed", False, "", why)
                for path in late
                if not any(other.startswith(f"{path}/") for other in late)
            ]
        self._save()

    def _grow(self) -> dict[str, Node]:
        """Enters folders that are not known yet. What lies at protected names in them."""
        before, grown = self._state, self._look(baseline=True)
        new = {path: node for path, node in grown.nodes.items() if _is_new(path, before, grown)}
        self._state = before._replace(
            nodes={**before.nodes, **new},
            words={**grown.words, **before.words},
            folders={**grown.folders, **before.folders},
            behind=tuple(dict.fromkeys((*before.behind, *grown.behind))),
            closed=before.closed | {path for path in grown.closed if path in new},
            whole=grown.whole,
        )
        return new

    def resume(self) -> bool:
        """Goes on from the state that an earlier harness kept, if there is one."""
        try:
            assert self._saved
            data = self._saved.read_bytes()
            state = msgspec.msgpack.decode(data, type=State)
        except (AssertionError, OSError, msgspec.MsgspecError):
            return False
        with self._lock:
            self._state, self._resumed = state, True
            self._restorer.accept()
        return True

    def check(self) -> tuple[Undone, ...]:
        """Restores what differs."""
        with self._lock:
            self._take_deeper()
            found = self._check()
            self._unreported += found
            return found

    async def close(self) -> None:
        """What is still held goes on under another harness, by the state that was saved."""
        await self._unwatch()
        if self._holds and not self._as_it_was():
            await asyncio.to_thread(self.check)
            self._tell()
        with self._lock:
            self._restorer.close()

    async def _unwatch(self) -> None:
        if self._task:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def _tell(self) -> None:
        with self._lock:
            found, self._unreported = tuple(self._unreported), []
        if found:
            for hold in self._holds:
                hold.add(found)
            self._report(found)

    # -- while programs run ------------------------------------------------------------------------

    async def _watch(self, delay: float = 0.0) -> None:
        if self._partial:
            await asyncio.to_thread(self._complete)
            self._tell()
        await asyncio.sleep(delay)
        alarm = self._alarm = _open_alarm()
        self._started = True
        pause = _PAUSES[0]
        self._checking = True
        try:
            watched = await asyncio.to_thread(self._arm, alarm)
            while True:
                self._checking = True
                self._changed = False
                found = await asyncio.to_thread(self.check)
                await self._mount_again()
                self._tell()
                if found or self._changed:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _PAUSES[1])
                    watched = await asyncio.to_thread(self._arm, alarm)
                    continue
                pause = _PAUSES[0]
                if self._armed != _places(self._state):
                    watched = await asyncio.to_thread(self._arm, alarm)
                self._checking, self._watched = False, watched
                await self._until_it_matters(alarm, watched)
        finally:
            self._armed = self._alarm = self._watched = None
            if alarm:  # the kernel takes its time, and nobody has to wait
                asyncio.get_running_loop().run_in_executor(None, alarm.close)

    async def _until_it_matters(self, alarm: Inotify | None, watched: _Watched) -> None:
        if alarm is None:
            await asyncio.sleep(WITHOUT_INOTIFY)
            return
        while True:
            patience = None if watched.complete else WITHOUT_INOTIFY
            if self._empty or self._in_git:
                patience = PAUSE if self._in_git else _GRACE
            if not await alarm.wait(patience) and (self._empty or self._in_git):
                return
            happened = alarm.read()
            self._checking = True
            self._grown |= any(one.mask & _NEW_FOLDER == _NEW_FOLDER for one in happened)
            self._grown |= any(one.mask & _MOVED_FOLDER == _MOVED_FOLDER for one in happened)
            if self._noticed and self._remount and any(map(self._is_noticed, happened)):
                await self._remount()
            if not watched.complete or any(_matters(one, watched.roles) for one in happened):
                return
            self._checking = False
            await asyncio.sleep(PAUSE)

    def _is_noticed(self, one: Happening) -> bool:
        appeared = one.mask & (inotify.CREATE | inotify.MOVED_TO)
        return bool(appeared and self._noticed and self._noticed(os.fsdecode(one.name)))

    def _arm(self, alarm: Inotify | None) -> _Watched:
        """What is watched already stays so."""
        if alarm is None:
            self._armed = _places(self._state)
            return _Watched({}, False)
        with self._lock:
            state, roles, complete = self._state, {}, True
            for path, seen in state.folders.items():
                with suppress(OSError), self._restorer.folder(path) as folder:
                    watch = _add(alarm, folder, inotify.NAMES | inotify.ATTRIB)
                    complete = complete and watch is not None
                    if watch is not None:
                        roles[watch] = seen.role
            for path, node in state.nodes.items():
                mask = inotify.NAMES | inotify.ATTRIB if node.kind == "folder" else inotify.CONTENT
                if node.kind in ("file", "folder"):
                    with suppress(OSError), self._restorer.held(path) as held:
                        watch = _add(alarm, held, mask)
                        complete = complete and watch is not None
                        roles.pop(watch or -1, None)
            self._armed = _places(state)
        return _Watched(roles, complete)

    async def _mount_again(self) -> None:
        """Until it is mounted, programs could write there: what changes meanwhile is restored."""
        with self._lock:
            outside, self._outside = self._outside, set()
        if not outside or not self._remount:
            return
        await self._remount()
        self._unsure = outside
        try:
            await asyncio.to_thread(self.check)
        finally:
            self._unsure = set()

    # -- looking -----------------------------------------------------------------------------------

    def _look(self, *, baseline: bool, most: int = MOST_FOLDERS) -> State:
        return look(
            self._restorer.root,
            self._state,
            baseline=baseline,
            role=self._role,
            skipped=self._skipped,
            most=most,
        )

    @property
    def _small(self) -> bool:
        """Of what is known; before the first look nothing is."""
        return 0 < len(self._state.folders) + len(self._state.nodes) <= _FEW

    def _as_it_was(self) -> bool:
        """One look, where it is over at once. False: all has to be checked."""
        if self._partial or not self._small or not self._lock.acquire(blocking=False):
            return False
        try:
            before, after = self._state, self._look(baseline=False)
            after = after._replace(whole=before.whole)
            if after.has_new_folders or not self._restorer.in_place():
                return False
            if _differences(before, after) or self._instructions(before, after):
                return False
            if any(_touched(before, after, path) for path in before.nodes):
                return False
            self._state = after
            return True
        finally:
            self._lock.release()

    def _check(self) -> tuple[Undone, ...]:
        found = self._restorer.root_back() if self._role == "work" else []
        if self._role == "work" and not self._allowed(".git"):
            found += self._restorer.git_back()
        before, after = self._state, self._look(baseline=False)
        found += self._instructions(before, after)
        differing = _differences(before, after)
        touched = [
            path
            for path in before.nodes
            if _touched(before, after, path) and not _is_git_config(path, after)
        ]
        self._failures &= Counter(dict.fromkeys(differing, _TRIES))
        self._empty = {one: since for one, since in self._empty.items() if one in differing}
        self._in_git = {one: since for one, since in self._in_git.items() if one in differing}
        if not differing and not touched:
            self._state = after._replace(whole=before.whole)
            return tuple(found)
        for path in touched:
            with suppress(OSError):
                self._restorer.restore(path, before)
                self._changed = True
        for path in differing[:_AT_ONCE]:
            one = self._judge(path, before, after)
            if one and not one.restored and self._may_still(path, after):
                self._changed = True
                continue
            self._changed |= one is not None
            if one and not any(one.path.startswith(f"{other.path}/") for other in found):
                found.append(one)
        self._refresh()
        self._save()
        return tuple(found)

    def _is_mount_point(self, path: str, before: State) -> bool:
        """Of a sandbox, for a moment; then it is looked at again."""
        if path in before.nodes or path not in _MOUNT_POINTS or not self._restorer.is_empty(path):
            self._empty.pop(path, None)
            return False
        since = self._empty.setdefault(path, time.monotonic())
        return not self._ending and time.monotonic() < since + _GRACE

    def _adopt_hooks(self, path: str, before: State, after: State) -> bool:
        """The folder that `git init` makes: what is in it is judged by itself."""
        if path in before.nodes or not _is_of_git(path, after, ("hooks",)):
            return False
        node = after.nodes[path]
        if node.kind != "folder":
            return False
        self._state = self._state._replace(nodes={**self._state.nodes, path: node})
        self._changed = True
        return True

    def _may_still(self, path: str, after: State) -> bool:
        """Whether to try once more: a program may be at work there."""
        self._failures[path] += 1
        if self._failures[path] < _TRIES:
            return True
        del self._failures[path]
        self._restorer.leave(path, after)
        return False

    def _judge(self, path: str, before: State, after: State) -> Undone | None:
        """What becomes of a difference: it is taken over, or undone."""
        if self._allowed(path):
            self._adopt(path)
            return None
        if self._is_mounted(path) and path not in self._unsure:
            self._outside.add(path)
            self._adopt(path)
            return None
        now = after.nodes.get(path)
        if self._is_mount_point(path, before):
            return None
        was = before.nodes.get(path)
        same_mode = not was or not now or was.kind != now.kind or was.mode == now.mode
        if same_mode and self._adopt(path, lambda: self._restorer.is_accepted(path)):
            return None
        if _is_git_config(path, after):
            if now is not None and now.kind == "file":
                return self._disarm(path, before.nodes.get(path))
        elif _is_sample(path, after):
            self._adopt(path)
            return None
        elif self._adopt_hooks(path, before, after) or self._adopt_checkout(path, before):
            return None
        try:
            return self._restorer.undo(path, before, after)
        except AcceptedMeanwhile:
            self._adopt(path)
            return None

    def _adopt_checkout(self, path: str, before: State) -> bool:
        """Takes over what git put there, if a commit of the start holds it. True also while git is
        still at work: then it is looked at again."""
        commits = self._commits
        if commits is None or path.startswith(".git/") or not commits.may_have_moved:
            return False
        busy, mark = commits.is_busy(_GRACE), commits.index_mark  # before HEAD is read
        had, has = _files_of(before, path), self._restorer.files_at(path)
        begun = has == {} and self._restorer.is_empty(path)  # a folder, whose files follow
        gone = has == {} and not begun
        if gone and path not in before.nodes:
            return True  # by itself, since it was seen
        if has is None or (had == has and not begun and not gone) or not commits.has(path, had):
            return False
        if not had and not commits.tracks(path):
            return False
        if not begun and commits.leads_to(path, has) and self._adopt_files(path, has):
            return True
        busy = busy or self._restorer.files_at(path) != has
        return busy and not self._ending and self._may_wait(path, mark, commits.has(path, has))

    def _adopt_files(self, path: str, files: Files) -> bool:
        """If they are still there, and were while they were looked at."""
        kept = self._state
        if self._adopt(path) and _files_of(self._state, path) == files:
            return True
        self._state = kept
        return False

    def _may_wait(self, path: str, mark: tuple[int, int], known: bool) -> bool:
        """For a checkout to end; longer with content that a commit of the start has."""
        now = time.monotonic()
        pending = self._in_git.get(path) or _Pending(now, now, mark)
        if pending.mark != mark:  # another checkout
            pending = pending._replace(since=now, mark=mark)
        self._in_git[path] = pending
        if known:
            return now < pending.first + _LONGEST_CHECKOUT
        return now < min(pending.since + _GRACE, pending.first + _LONGEST_UNKNOWN)

    def _disarm(self, path: str, known: Node | None) -> Undone | None:
        try:
            undone, content = self._restorer.disarm(path, known)
            with self._restorer.held(path) as held:
                status = os.fstat(held)
        except OSError as error:
            return Undone(shown(path), "changed", False, "", error.strerror or str(error))
        mode = known.mode if known else status.st_mode & 0o777
        if known and status.st_mode & 0o7777 != known.mode:
            with suppress(OSError), self._restorer.held(path) as held:
                Path(f"/proc/self/fd/{held}").chmod(known.mode)
        owner = (status.st_uid, status.st_gid)
        node = Node("file", mode, owner, status.st_mtime_ns, content, mark_of(status))
        self._state = self._state._replace(nodes={**self._state.nodes, path: node})
        self._changed = True
        return undone

    def _is_mounted(self, path: str) -> bool:
        return any(f"{path}/".startswith(f"{top}/") for top in self.mounted)

    def _last_check(self) -> None:
        """Until nothing differs; then takes in what lies in folders that are new."""
        with self._lock:
            self._take_deeper()
            for _ in range(_ROUNDS):
                self._changed = False
                found = self._check()
                self._unreported += found
                if not found and not self._failures and not self._changed:
                    break
            if not self._state.has_new_folders:
                return
            new = self._grow()
            why = "it came with a folder that is new"
            self._unreported += [
                Undone(shown(path), "created", False, "", why)
                for path in new
                if parent_of(path)[0] not in new and parent_of(path)[1] != "commondir"
            ]
            self._save()

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

    def _instructions(self, before: State, after: State) -> list[Undone]:
        found = []
        for path in sorted({**before.words, **after.words}):
            was, now = before.words.get(path), after.words.get(path)
            if was != now and parent_of(path)[0] in after.folders:
                why = "it instructs agents; read it before the next session"
                found.append(Undone(shown(path), act_of(was, now), False, "", why))
        return found

    def _adopt(
        self,
        path: str,
        still: Callable[[], bool] = lambda: True,
    ) -> bool:
        """Takes over what lies there, if it is `still` right once it was looked at."""
        if not still():
            return False
        now, nodes = self._look(baseline=True), dict(self._state.nodes)
        if not still():
            return False
        for one in [one for one in nodes if f"{one}/".startswith(f"{path}/")]:
            del nodes[one]
        nodes |= {one: node for one, node in now.nodes.items() if f"{one}/".startswith(f"{path}/")}
        self._state = self._state._replace(nodes=nodes)
        self._changed = True
        return True

    def _save(self) -> None:
        if self._saved:
            with suppress(OSError):
                self._saved.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                draft = self._saved.with_name(f"{self._saved.name}.new")
                draft.write_bytes(msgspec.msgpack.encode(self._state))
                draft.replace(self._saved)


def _is_git_config(path: str, state: State) -> bool:
    return _is_of_git(path, state, ("config", "config.worktree"))


def _is_sample(path: str, state: State) -> bool:
    """Of a hook: git runs none that is called so."""
    return path.endswith(".sample") and _is_of_git(parent_of(path)[0], state, ("hooks",))


def _is_of_git(path: str, state: State, names: tuple[str, ...]) -> bool:
    folder, name = parent_of(path)
    seen = state.folders.get(folder)
    return name in names and seen is not None and seen.role == "git"


def _files_of(state: State, path: str) -> Files:
    """What was known at a path, as git would have it."""
    return {
        one: (git_mode(node.kind, node.mode), node.content)
        for one, node in state.nodes.items()
        if node.kind != "folder" and f"{one}/".startswith(f"{path}/")
    }


class _Pending(NamedTuple):
    first: float
    since: float  # the index is as it is
    mark: tuple[int, int]


class _Watched(NamedTuple):
    roles: dict[int, str]  # of folders in which only some names matter
    complete: bool  # False: the system has no more watches


def _open_alarm() -> Inotify | None:
    try:
        return Inotify()
    except OSError:
        return None


def _places(state: State) -> dict[str, tuple[int, int]]:
    return {path: (seen.mark.device, seen.mark.inode) for path, seen in state.folders.items()}


def _add(alarm: Inotify, held: int, mask: int) -> int | None:
    """None where the system has no more; -1 for what may not be read, and so not be watched."""
    try:
        return alarm.add_open(held, mask)
    except OSError as error:
        return None if error.errno in (errno.ENOSPC, errno.ENOMEM) else -1


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
    """The same content, and somebody wrote it, or has another name for it.

    One that another session restored has the old time, and no second name.
    """
    was, now = before.nodes[path], after.nodes.get(path)
    if now is None or was.kind != "file" or was.content is None or not now.same(was):
        return False
    if was.mark == now.mark:
        return False
    return was.modified != now.modified or now.mark.links > was.mark.links


def _is_new(path: str, before: State, grown: State) -> bool:
    """Lies in a folder that was not known."""
    folder, _ = parent_of(path)
    while folder not in grown.folders:
        folder, _ = parent_of(folder)
    return folder not in before.folders
