"""The state of the running service, which every route uses."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Generic, Self, TypeVar

from tillerman._version import __version__
from tillerman.core.timestamps import rfc3339
from tillerman.harness.harness import Harness
from tillerman.surfaces.server.bodies import AgentDocument, Health
from tillerman.surfaces.server.metrics import Metrics
from tillerman.surfaces.server.owned_sessions import OwnedSessions
from tillerman.surfaces.server.session_feeds import SessionFeeds
from tillerman.surfaces.server.tokens import Links, TokenStore
from tillerman.workspace.branch.github import GitHub

MOST_LARGE_BODIES = 4  # read at the same time
ANSWER_SECONDS = 20.0

T = TypeVar("T")


class SharedAnswer(Generic[T]):
    """An expensive answer, asked once for all who want it within some seconds."""

    def __init__(self) -> None:
        self._asked: asyncio.Task[T] | None = None
        self._at = 0.0

    async def get(self, ask: Callable[[], Coroutine[Any, Any, T]], *, fresh: bool = False) -> T:
        now = time.monotonic()
        old = fresh or now > self._at + ANSWER_SECONDS
        if self._asked is None or (self._asked.done() and old):
            self._asked, self._at = asyncio.create_task(ask()), now
        return await asyncio.shield(self._asked)


class Service:
    def __init__(self, harness: Harness, tokens: TokenStore, *, url: str = "") -> None:
        self.harness = harness
        self.tokens = tokens
        self.links = Links(tokens)
        self.url = url  # as browsers name it; empty without a port
        self.owned = OwnedSessions(harness)
        self.feeds = SessionFeeds(harness)
        self.metrics = Metrics()
        self.refused: Mapping[int, int] = {}  # requests by status, counted by the guard
        self.github = GitHub()
        self.agents = SharedAnswer[Sequence[AgentDocument]]()
        self.large_bodies = asyncio.Semaphore(MOST_LARGE_BODIES)
        self.stopping = asyncio.Event()  # ends all streams
        self._started_at = rfc3339(datetime.now(UTC))
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if most := self.harness.config.server.warm_agents:
            self.harness.sessions.keep_warm(most)
        await self.feeds.open()
        self._stack.push_async_callback(self.feeds.close)
        self._stack.push_async_callback(self.owned.close_all)
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._stack.aclose()

    def health(self) -> Health:
        return Health(
            version=__version__,
            pid=os.getpid(),
            started_at=self._started_at,
            sessions=len(self.owned),
            working=len(self.owned.working),
            streams=self.metrics.streams,
            warm_agents=self.harness.sessions.warm,
        )
