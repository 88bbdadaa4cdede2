"""Refreshes the branch status: reads git on each file change, queries GitHub less often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.config.project_trust import repository as lies_in
from tillerman.core.errors import TillermanError
from tillerman.workspace.branch.github import GitHub
from tillerman.workspace.branch.pull_request import PullRequest, PullRequestUnavailable
from tillerman.workspace.branch.status import Breadcrumb, crumb
from tillerman.workspace.git.repository_state import NoRepository, Repository, read_repository
from tillerman.workspace.git.repository_watch import FolderWatch

if TYPE_CHECKING:
    from collections.abc import Mapping

EVERY = 30.0  # seconds between refreshes without changes
REST = 4  # minimum pause between refreshes, as a multiple of the refresh time
KEPT = 600.0  # seconds an unconfirmed pull request is shown
REMEMBERED = 32  # branches
_PASSING = ("slow", "rate_limited", "failed")  # temporary errors
ASKING = PullRequestUnavailable("slow", "querying GitHub")

PullStatus = PullRequest | PullRequestUnavailable | None


@dataclass(frozen=True)
class RepositorySnapshot:
    """The status to show."""

    crumb: Breadcrumb | None = None  # None: no repository
    problem: str = ""  # error, if there should be a repository
    doubt: PullRequestUnavailable | None = None  # why the pull request may be stale


@dataclass(frozen=True)
class _Received:
    pull_status: PullStatus
    asked: float  # monotonic time
    branch_state: Hashable  # branch state at that time
    pull: PullRequest | None = None  # last known
    pull_at: float = 0.0


class RepositoryWatch:
    """Watches one folder at a time; one instance per screen, so that `gh` calls are limited."""

    def __init__(
        self,
        report: Callable[[RepositorySnapshot], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.github = GitHub(environment)
        self._report = report
        self._wake = asyncio.Event()
        self._doubted = 0.0  # results older than this are stale
        self._received: dict[tuple[Path, str | None], _Received] = {}
        self._current: Repository | None = None
        self._wanted: tuple[Repository, float] | None = None  # next query, and its start time
        self._asking: tuple[Repository, float] | None = None  # running query, and its start time
        self._asker: asyncio.Task[None] | None = None

    async def follow(self, folder: Path) -> None:
        """Watches the folder until cancelled."""
        self._current = None
        watch: tuple[Path, FolderWatch | None] | None = None
        try:
            while True:
                began = time.monotonic()
                top = await self._look(folder)
                if watch is None or watch[0] != top:
                    if watch and watch[1]:
                        watch[1].close()
                    watch = (top, await _watch(top))
                    if watch[1]:
                        continue  # changes before the watch was armed were missed
                with suppress(TimeoutError):
                    took = time.monotonic() - began
                    async with asyncio.timeout(min(EVERY, REST * took)):
                        await self._wake.wait()
                await self._until_due(watch[1])
        finally:
            if watch and watch[1]:
                watch[1].close()

    def refresh(self) -> None:
        """Refreshes git and GitHub after an action."""
        self._doubted = time.monotonic()
        self._wake.set()

    async def now(self, folder: Path) -> Breadcrumb:
        """The current status, including a fresh GitHub query."""
        repository = await read_repository(folder)
        began = time.monotonic()
        pull_status = await self.github.pull_request(repository)
        self._remember(repository, pull_status, began)
        return crumb(repository, pull_status)

    async def close(self) -> None:
        if self._asker:
            self._asker.cancel()
            with suppress(asyncio.CancelledError):
                await self._asker

    # -- git ---------------------------------------------------------------------------------------

    async def _look(self, folder: Path) -> Path:
        """Refreshes the status and returns the folder to watch."""
        self._wake.clear()
        began = time.monotonic()
        try:
            self._current = await read_repository(folder)
        except NoRepository:
            self._current = None
            self._report(RepositorySnapshot())
            return folder
        except TillermanError as error:
            if self._current is None and lies_in(folder.resolve()):
                self._report(RepositorySnapshot(problem=error.message))
            return self._current.top if self._current else folder
        self._show()
        if self._is_due(self._current, began):
            self._ask(self._current, began)
        return self._current.top

    async def _until_due(self, watch: FolderWatch | None) -> None:
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._wake.wait())]
        if watch:
            waits.append(asyncio.ensure_future(watch.changed()))
        try:
            await asyncio.wait(waits, timeout=EVERY, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    # -- GitHub ------------------------------------------------------------------------------------

    def _is_due(self, repository: Repository, now: float) -> bool:
        """False if a recent result or a running query covers the current branch state."""
        if self._asking and _key(self._asking[0]) == _key(repository):
            branch_state, asked = _state_of(self._asking[0]), self._asking[1]
        elif received := self._received.get(_key(repository)):
            branch_state, asked = received.branch_state, received.asked
        else:
            return True
        return (
            asked <= self._doubted or branch_state != _state_of(repository) or now - asked >= EVERY
        )

    def _ask(self, repository: Repository, began: float) -> None:
        """Starts a query, or schedules it after the running one; only the newest is kept."""
        self._wanted = (repository, began)
        if self._asker is None or self._asker.done():
            self._asker = asyncio.ensure_future(self._asks())

    async def _asks(self) -> None:
        while self._wanted:
            self._asking, self._wanted = self._wanted, None
            repository, began = self._asking
            try:
                pull_status = await self.github.pull_request(repository)
            finally:
                self._asking = None
            self._remember(repository, pull_status, began)
            if self._current and _key(self._current) == _key(repository):
                self._show()

    def _remember(self, repository: Repository, pull_status: PullStatus, began: float) -> None:
        key = _key(repository)
        before = self._received.pop(key, None)
        pull, at = (before.pull, before.pull_at) if before else (None, 0.0)
        if not isinstance(pull_status, PullRequestUnavailable) or pull_status.why not in _PASSING:
            pull, at = (pull_status, began) if isinstance(pull_status, PullRequest) else (None, 0.0)
        self._received[key] = _Received(pull_status, began, _state_of(repository), pull, at)
        while len(self._received) > REMEMBERED:
            self._received.pop(next(iter(self._received)))

    def _show(self) -> None:
        repository = self._current
        assert repository is not None
        received = self._received.get(_key(repository))
        if received is None:
            self._report(RepositorySnapshot(crumb(repository, ASKING)))
        elif (
            isinstance(received.pull_status, PullRequestUnavailable)
            and received.pull
            and _recent(received)
        ):
            self._report(
                RepositorySnapshot(crumb(repository, received.pull), doubt=received.pull_status)
            )
        else:
            self._report(RepositorySnapshot(crumb(repository, received.pull_status)))


def _recent(received: _Received) -> bool:
    return time.monotonic() - received.pull_at < KEPT


def _key(repository: Repository) -> tuple[Path, str | None]:
    return repository.top, repository.branch


def _state_of(repository: Repository) -> Hashable:
    """Branch state that affects GitHub's answer; a new query is needed when it changes."""
    state = repository.state
    return state.commit, state.upstream, state.ahead, state.behind, repository.remote_url


async def _watch(folder: Path) -> FolderWatch | None:
    try:
        watch = FolderWatch(folder)
    except OSError:
        return None
    try:
        await watch.arm()
    except BaseException:
        watch.close()
        raise
    return watch
