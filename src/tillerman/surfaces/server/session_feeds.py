"""Feeds of sessions: one reader of the log per session, however many clients follow it.

A client has a position and no queue. Whoever is behind the recent frames reads the store, so memory
does not grow with slow clients, and nobody waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tillerman.core.errors import SessionNotFound, TillermanError
from tillerman.harness.harness import Harness
from tillerman.sessions.remote.session_notifications import SessionNotifications
from tillerman.surfaces.server.entry_frame import EntryFrame, frames_of

FLUSH = 0.04  # seconds between two frames; a first entry is sent at once
STEPS = 4  # in which it is noticed that the turn has ended
HEARTBEAT = 10.0  # seconds without an entry after which every client gets a sign of life
RECENT_BYTES = 1024 * 1024  # of the frames that are kept for clients that are nearly up to date
_log = logging.getLogger("tillerman")


class SessionFeed:
    """The frames of one session."""

    def __init__(self, harness: Harness, session: str) -> None:
        self.session = session
        self.followers = 0
        self.changed = asyncio.Event()  # another process may have started to run it
        self.closed = False
        self._attached = harness.attach(session)
        self._log = harness.sessions.log
        self._catalog = harness.sessions.catalog
        self._last = self._log.last_seq(session)
        self._recent: deque[EntryFrame] = deque()
        self._recent_bytes = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self._reading = asyncio.create_task(self._read())

    async def frame(self, since: int) -> EntryFrame | None:
        """The next entries after this number; None after some seconds without any."""
        if since >= self._last and not self.closed:
            await self._more()
        if since >= self._last:
            return None
        for frame in self._recent:
            if frame.first <= since + 1 <= frame.last:
                return frame.after(since)
        # in a thread: a client that is far behind must not delay the others
        page = await asyncio.to_thread(self._log.page, self.session, since)
        return frames_of(page)[0] if page else None

    def close(self) -> None:
        """Ends the feed, whose session was deleted."""
        self.closed = True
        self.wake()

    async def stop(self) -> None:
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while not self.closed:
                self.changed.clear()
                await self._catch_up()
                async for last in self._attached.last_seqs(self._last):
                    if last > self._last:
                        await self._catch_up()
                        await self._rest()
                await self._catch_up()
                await self.changed.wait()
        except TillermanError:
            _log.exception("the feed of session %s ended", self.session)
        finally:
            self.close()

    async def _rest(self) -> None:
        """Lets entries gather. The end of a turn is not held back: somebody waits for it."""
        working = self._is_working()
        for _ in range(STEPS):
            await asyncio.sleep(FLUSH / STEPS)
            if working and not self._is_working():
                break

    def _is_working(self) -> bool:
        with suppress(SessionNotFound):  # it was deleted
            return self._catalog.get(self.session).open_turn is not None
        return False

    async def _catch_up(self) -> None:
        """Publishes everything that is in the log."""
        while page := self._log.page(self.session, self._last):
            for frame in frames_of(page):
                self._recent.append(frame)
                self._recent_bytes += frame.size
            self._last = page[-1].seq
            while self._recent_bytes > RECENT_BYTES and len(self._recent) > 1:
                self._recent_bytes -= self._recent.popleft().size
            self.wake()
            await asyncio.sleep(0)

    async def _more(self) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    def wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


class SessionFeeds:
    """The feeds of all sessions that somebody follows."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._feeds: dict[str, SessionFeed] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @asynccontextmanager
    async def following(self, session: str) -> AsyncIterator[SessionFeed]:
        feed = self._feeds.get(session)
        if feed is None or feed.closed:
            feed = self._feeds[session] = SessionFeed(self._harness, session)
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                if self._feeds.get(session) is feed:
                    del self._feeds[session]
                await feed.stop()

    @property
    def followers(self) -> int:
        return sum(feed.followers for feed in self._feeds.values())

    def deleted(self, session: str) -> None:
        if feed := self._feeds.get(session):
            feed.close()

    async def open(self) -> None:
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._beat())]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for feed in list(self._feeds.values()):
            feed.close()
            await feed.stop()

    async def _listen(self) -> None:
        with suppress(OSError), SessionNotifications(self._harness.paths.watchers) as notifications:
            async for session in notifications:
                for feed in list(self._feeds.values()):
                    if session in (None, feed.session):
                        feed.changed.set()

    async def _beat(self) -> None:
        """One timer for all clients: a timer of each would cost more than sending."""
        while True:
            await asyncio.sleep(HEARTBEAT)
            for feed in self._feeds.values():
                feed.wake()
