"""Watches the open requests of all sessions that need a user, without polling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple

from tillerman.core.errors import TillermanError
from tillerman.core.events import Entry, PermissionRequested, QuestionAsked, RequestAnswered
from tillerman.sessions.remote.owner_socket import FollowRequests, OwnerClient
from tillerman.sessions.remote.session_notifications import SessionNotifications
from tillerman.sessions.session import read_all
from tillerman.store.catalog import Catalog
from tillerman.store.event_log import EventLog


class RequestOpened(NamedTuple):
    """A request needs an answer. Emitted again when its session becomes idle."""

    entry: Entry  # PermissionRequested or QuestionAsked
    idle: bool  # no process runs the session: the answer is stored until it resumes


class RequestResolved(NamedTuple):
    entry: Entry  # RequestAnswered


Change = RequestOpened | RequestResolved


class RequestWatch:
    """Watches requests. `socket` returns the owner socket's path of a session."""

    def __init__(
        self, catalog: Catalog, log: EventLog, socket: Callable[[str], Path], watchers: Path
    ) -> None:
        self._catalog = catalog
        self._log = log
        self._socket = socket
        self._watchers = watchers
        self._reported: dict[
            str, dict[str, RequestOpened]
        ] = {}  # session -> request id -> as last emitted
        self._following: dict[str, asyncio.Task[None]] = {}
        self._changes: asyncio.Queue[Change | BaseException] = asyncio.Queue()

    async def changes(self) -> AsyncIterator[Change]:
        """Yields the open requests, then all changes; never ends by itself."""
        with SessionNotifications(self._watchers) as notifications:
            listening = asyncio.create_task(self._listen(notifications))
            listening.add_done_callback(self._log_failure)
            try:
                self._look_at_all()
                while True:
                    change = await self._changes.get()
                    if isinstance(change, BaseException):
                        raise change
                    yield change
            finally:
                tasks = [listening, *self._following.values()]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _listen(self, notifications: SessionNotifications) -> None:
        async for session in notifications:
            if session is None:
                self._look_at_all()
            else:
                self._look_at(session)

    def _look_at_all(self) -> None:
        for session in dict.fromkeys(
            [
                *(request.session for request in self._catalog.open_requests()),
                *self._catalog.owned(),
                *self._reported,
            ]
        ):
            self._look_at(session)

    def _look_at(self, session: str) -> None:
        if session in self._following:
            self._compare(session, idle=False)
            return
        task = asyncio.create_task(self._follow_session(session))
        self._following[session] = task
        task.add_done_callback(self._log_failure)

    def _log_failure(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()):
            self._changes.put_nowait(error)

    async def _follow_session(self, session: str) -> None:
        """Follows the session's requests as long as a process runs it."""
        try:
            while client := await OwnerClient.connect(str(self._socket(session))):
                try:
                    await client.call(FollowRequests())
                    self._compare(session, idle=False)
                    async for seq in client.updates():
                        self._take(session, seq)
                except TillermanError:
                    break  # it just ended, or is an older tillerman
                finally:
                    client.leave()
        finally:
            del self._following[session]
        self._compare(session, idle=True)

    def _take(self, session: str, seq: int) -> None:
        for entry in self._log.since(session, seq - 1, 1):
            match entry.event:
                case PermissionRequested() | QuestionAsked():
                    self._report(entry, idle=False)
                case RequestAnswered():
                    self._resolve(entry)

    def _compare(self, session: str, *, idle: bool) -> None:
        """Emits the differences to the open requests in the store."""
        left = {one.request_id: one.seq for one in self._catalog.open_requests(session)}
        known = self._reported.get(session, {})
        gone = {id: w.entry.seq for id, w in known.items() if left.get(id) != w.entry.seq}
        if gone:
            for entry in read_all(self._log, session, min(gone.values())):
                self._resolve(entry)
            for id in gone:
                known.pop(id, None)  # of a deleted session
        for seq in left.values():
            for entry in self._log.since(session, seq - 1, 1):
                self._report(entry, idle=idle)

    def _report(self, entry: Entry, *, idle: bool) -> None:
        if not isinstance(entry.event, PermissionRequested | QuestionAsked):
            return
        waits = RequestOpened(entry, idle)
        known = self._reported.setdefault(entry.session, {})
        if known.get(entry.event.request_id) != waits:
            known[entry.event.request_id] = waits
            self._changes.put_nowait(waits)

    def _resolve(self, entry: Entry) -> None:
        if not isinstance(entry.event, RequestAnswered):
            return
        known = self._reported.get(entry.session, {})
        if known.pop(entry.event.request_id, None):
            self._changes.put_nowait(RequestResolved(entry))
        if not known:
            self._reported.pop(entry.session, None)
