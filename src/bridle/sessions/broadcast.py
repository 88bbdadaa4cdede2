"""Past from the log, then live, no gap: readers are woken and read on from where they are."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from bridle.core.events import Entry
from bridle.store.event_log import EventLog

RECENT = 4096  # entries kept in memory, so that a reader that keeps up reads no file
PAGE = 1000


class Broadcast:
    """What is published here is durable already."""

    def __init__(self, session: str, log: EventLog, last_seq: int) -> None:
        self._session = session
        self._log = log
        self._recent: deque[Entry] = deque(maxlen=RECENT)
        self._last = last_seq
        self._closed = False
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def last_seq(self) -> int:
        return self._last

    def publish(self, entries: Sequence[Entry]) -> None:
        self._recent.extend(entries)
        self._last = entries[-1].seq
        self.wake()

    def close(self) -> None:
        self._closed = True
        self.wake()

    async def entries(self, since: int = 0) -> AsyncIterator[Entry]:
        async for page in self.pages(since):
            for entry in page:
                yield entry

    async def pages(
        self, since: int = 0, *, until: Callable[[], bool] | None = None
    ) -> AsyncIterator[Sequence[Entry]]:
        """All that is new each time, in order; ends with the session, or once `until` holds."""
        while True:
            if since < self._last:
                page = self._page(since)
                since = page[-1].seq
                yield page
            elif self._closed or (until and until()):
                return
            else:
                await self.news(since)

    async def news(self, since: int) -> int:
        """Waits until something after `since` is there, or the end; returns the last number."""
        if since >= self._last and not self._closed:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.add(waiter)
            try:
                await waiter
            finally:
                self._waiters.discard(waiter)
        return self._last

    @property
    def closed(self) -> bool:
        return self._closed

    def _page(self, since: int) -> Sequence[Entry]:
        if self._recent and self._recent[0].seq <= since + 1:
            skip = since + 1 - self._recent[0].seq
            return [self._recent[i] for i in range(skip, min(skip + PAGE, len(self._recent)))]
        return self._log.since(self._session, since, limit=PAGE)

    def wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
