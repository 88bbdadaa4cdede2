"""Queries stored sessions for the session browser: pages and full-text search."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.core.errors import SessionNotFound
from tillerman.surfaces.rendering import tables

if TYPE_CHECKING:
    from tillerman.sessions.service import Sessions
    from tillerman.store.session_row import SessionRow

PAGE = 100
HITS = 400  # limit of search hits; several may be of one session


@dataclass(frozen=True)
class SessionHit:
    row: SessionRow
    waits: bool = False  # has an open request
    snippet: tuple[str, ...] = ()  # every second part is a match


class SessionQuery:
    """Blocking queries, to be run in a thread, except `rename`."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def page(self, folder: Path | None, offset: int = 0) -> tuple[list[SessionHit], bool]:
        """One page, newest first, and whether it is the last one."""
        cwd = None if folder is None else str(folder)
        rows = self._sessions.catalog.list(cwd=cwd, limit=PAGE, offset=offset)
        waiting = self._waiting()
        return [SessionHit(row, row.id in waiting) for row in rows], len(rows) < PAGE

    def search(self, words: str, folder: Path | None) -> tuple[list[SessionHit], bool]:
        """Best matches, each session once: title matches first, then by the best text hit."""
        named = {row.id: row for row in self._sessions.catalog.titled(words, limit=HITS)}
        hits = self._sessions.search.search(words, limit=HITS)
        snippets: dict[str, str] = {}
        for hit in hits:
            snippets.setdefault(hit.session, hit.snippet)
        waiting = self._waiting()
        found = []
        for session in dict.fromkeys([*named, *snippets]):
            try:
                row = named.get(session) or self._sessions.catalog.get(session)
            except SessionNotFound:
                continue  # deleted meanwhile
            if folder is None or row.cwd == str(folder):
                snippet = tuple(tables.snippet(snippets.get(session, "")))
                found.append(SessionHit(row, row.id in waiting, snippet))
        whole = max(len(hits), len(named)) < HITS and len(found) <= PAGE
        return found[:PAGE], whole

    async def rename(self, row: SessionRow, title: str) -> None:
        stored = tables.title(title)
        await asyncio.wrap_future(self._sessions.catalog.rename(row.id, stored))

    def _waiting(self) -> set[str]:
        return {request.session for request in self._sessions.catalog.open_requests()}
