"""Broadcasts entries to readers: the past from the log, then live, without a gap."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from tillerman.core.events import Entry
from tillerman.store.event_log import EventLog

RECENT_BYTES = 4 * 1024 * 1024  # cached in memory, so that current readers read no file
READ_BYTES = 64 * 1024  # cached once every reader has them, for a new reader
PAGE_COST = 1024  # bytes of memory per page besides its entries


class Broadcast:
    """Publishes durable entries to the readers of one session."""

    def __init__(self, session: str, log: EventLog, last_seq: int) -> None:
        self._session = session
        self._log = log
        self._recent: deque[tuple[Sequence[Entry], int]] = deque()  # pages and their sizes
        self._recent_bytes = 0
        self._read: dict[object, int] = {}  # the last number of each reader
        self._last = last_seq
        self._closed = False
        self._failure: BaseException | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    @property
    def last_seq(self) -> int:
        return self._last

    def publish(self, entries: Sequence[Entry], size: int) -> None:
        size += PAGE_COST
        self._recent.append((entries, size))
        self._recent_bytes += size
        self._forget(min(self._read.values(), default=self._last))
        self._last = entries[-1].seq
        self.wake()

    def _forget(self, read: int) -> None:
        """Drops pages that every reader has, since many sessions share the memory."""
        while self._recent_bytes > READ_BYTES:
            page, size = self._recent[0]
            if page[-1].seq > read and self._recent_bytes <= RECENT_BYTES:
                break
            self._recent.popleft()
            self._recent_bytes -= size

    def close(self) -> None:
        self._closed = True
        self.wake()

    def fail(self, error: BaseException) -> None:
        """Ends the stream, since nothing more is durable. Readers get the error at the end."""
        self._failure = error
        self.close()

    async def entries(self, since: int = 0) -> AsyncIterator[Entry]:
        async for page in self.pages(since):
            for entry in page:
                yield entry

    async def pages(
        self, since: int = 0, *, until: Callable[[], bool] | None = None
    ) -> AsyncIterator[Sequence[Entry]]:
        """Yields new entries in order; ends with the session, or once `until` holds."""
        reader = object()
        try:
            while True:
                self._read[reader] = since
                if since < self._last:
                    page = self._page(since)
                    since = page[-1].seq
                    yield page
                elif self._failure:
                    raise self._failure
                elif self._closed or (until and until()):
                    return
                else:
                    await self.updates(since)
        finally:
            del self._read[reader]

    async def updates(self, since: int) -> int:
        """Waits for an entry after `since`, or the end; returns the last number."""
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
        for page, _ in reversed(self._recent):
            if page[0].seq <= since + 1:
                return page[since + 1 - page[0].seq :]
        return self._log.page(self._session, since)

    def wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
