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

News = PullRequest | PullRequestUnavailable | None


@dataclass(frozen=True)
class RepositorySnapshot:
    """The status to show."""

    crumb: Breadcrumb | None = None  # None: no repository
    trouble: str = ""  # error, if there should be a repository
    doubt: PullRequestUnavailable | None = None  # why the pull request may be stale


@dataclass(frozen=True)
class _Heard:
    news: News
    asked: float  # monotonic time
    stood: Hashable  # branch state at that time
    pull: PullRequest | None = None  # last known
    pull_at: float = 0.0


class RepositoryWatch:
    """Watches one folder at a time; one instance per screen, so that `gh` calls are limited."""

    def __init__(
        self,
        tell: Callable[[RepositorySnapshot], None],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.github = GitHub(environment)
        self._tell = tell
        self._stirred = asyncio.Event()
        self._doubted = 0.0  # results older than this are stale
        self._heard: dict[tuple[Path, str | None], _Heard] = {}
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
                    await asyncio.wait_for(self._stirred.wait(), min(EVERY, REST * took))
                await self._until_due(watch[1])
        finally:
            if watch and watch[1]:
                watch[1].close()

    def stir(self) -> None:
        """Refreshes git and GitHub after an action."""
        self._doubted = time.monotonic()
        self._stirred.set()

    async def now(self, folder: Path) -> Breadcrumb:
        """The current status, including a fresh GitHub query."""
        repository = await read_repository(folder)
        began = time.monotonic()
        news = await self.github.pull_request(repository)
        self._remember(repository, news, began)
        return crumb(repository, news)

    async def close(self) -> None:
        if self._asker:
            self._asker.cancel()
            with suppress(asyncio.CancelledError):
                await self._asker

    # -- git ---------------------------------------------------------------------------------------

    async def _look(self, folder: Path) -> Path:
        """Refreshes the status and returns the folder to watch."""
        self._stirred.clear()
        began = time.monotonic()
        try:
            self._current = await read_repository(folder)
        except NoRepository:
            self._current = None
            self._tell(RepositorySnapshot())
            return folder
        except TillermanError as error:
            if self._current is None and lies_in(folder.resolve()):
                self._tell(RepositorySnapshot(trouble=error.message))
            return self._current.top if self._current else folder
        self._show()
        if self._is_due(self._current, began):
            self._ask(self._current, began)
        return self._current.top

    async def _until_due(self, watch: FolderWatch | None) -> None:
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._stirred.wait())]
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
            stood, asked = _stands(self._asking[0]), self._asking[1]
        elif heard := self._heard.get(_key(repository)):
            stood, asked = heard.stood, heard.asked
        else:
            return True
        return asked <= self._doubted or stood != _stands(repository) or now - asked >= EVERY

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
                news = await self.github.pull_request(repository)
            finally:
                self._asking = None
            self._remember(repository, news, began)
            if self._current and _key(self._current) == _key(repository):
                self._show()

    def _remember(self, repository: Repository, news: News, began: float) -> None:
        key = _key(repository)
        before = self._heard.pop(key, None)
        pull, at = (before.pull, before.pull_at) if before else (None, 0.0)
        if not isinstance(news, PullRequestUnavailable) or news.why not in _PASSING:
            pull, at = (news, began) if isinstance(news, PullRequest) else (None, 0.0)
        self._heard[key] = _Heard(news, began, _stands(repository), pull, at)
        while len(self._heard) > REMEMBERED:
            self._heard.pop(next(iter(self._heard)))

    def _show(self) -> None:
        repository = self._current
        assert repository is not None
        heard = self._heard.get(_key(repository))
        if heard is None:
            self._tell(RepositorySnapshot(crumb(repository, ASKING)))
        elif isinstance(heard.news, PullRequestUnavailable) and heard.pull and _recent(heard):
            self._tell(RepositorySnapshot(crumb(repository, heard.pull), doubt=heard.news))
        else:
            self._tell(RepositorySnapshot(crumb(repository, heard.news)))


def _recent(heard: _Heard) -> bool:
    return time.monotonic() - heard.pull_at < KEPT


def _key(repository: Repository) -> tuple[Path, str | None]:
    return repository.top, repository.branch


def _stands(repository: Repository) -> Hashable:
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
