"""The conversations that pages show: each is folded once, and kept while somebody looks at it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tillerman.core.transcript.transcript import Transcript
from tillerman.store.event_log import EventLog
from tillerman.surfaces.page.conversation import PageConversation

_KEPT = 16  # conversations that nobody looks at now


class SessionPage:
    """One session. Use `conversation` without awaiting in between."""

    def __init__(self, session: str, log: EventLog) -> None:
        self.session = session
        self.conversation = PageConversation()
        self.viewers = 0
        self._log = log
        self._reading = asyncio.Lock()
        self._loaded = False
        self._loading: asyncio.Task[None] | None = None

    @property
    def transcript(self) -> Transcript:
        return self.conversation.transcript

    async def refresh(self) -> None:
        """Reads what is new in the log."""
        async with self._reading:
            if not self._loaded:
                await self._load()
            while page := self._log.page(self.session, self.conversation.added):
                self.conversation.add(page)
                await asyncio.sleep(0)
            self.conversation.refresh()

    async def _load(self) -> None:
        """In one thread, since nobody uses the conversation yet. It goes on when the first viewer
        leaves: a second thread would add the same entries again."""
        if self._loading is None:
            self._loading = asyncio.create_task(asyncio.to_thread(self._read_all))
        try:
            await asyncio.shield(self._loading)
        except Exception:
            self._loading = None
            raise
        self._loaded = True

    def _read_all(self) -> None:
        while page := self._log.page(self.session, self.conversation.added):
            self.conversation.add(page)
        self.conversation.refresh()


class SessionPages:
    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._pages: OrderedDict[str, SessionPage] = OrderedDict()

    @asynccontextmanager
    async def viewed(self, session: str) -> AsyncIterator[SessionPage]:
        """The page of a session with all that is in the log."""
        page = self._pages.get(session)
        if page is None:
            page = self._pages[session] = SessionPage(session, self._log)
        self._pages.move_to_end(session)
        page.viewers += 1
        try:
            await page.refresh()
            yield page
        finally:
            page.viewers -= 1
            self._forget()

    def deleted(self, session: str) -> None:
        self._pages.pop(session, None)

    def _forget(self) -> None:
        unseen = [id for id, page in self._pages.items() if not page.viewers]
        for id in unseen[: max(0, len(unseen) - _KEPT)]:
            del self._pages[id]
