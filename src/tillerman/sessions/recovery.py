"""Recovers sessions of a dead owner: ends the open turn; its requests can still be answered.

The agent that asked no longer runs, so an answer is stored in the log until the same request is
made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from msgspec.structs import replace

from tillerman.core.errors import RequestNotOpen, SessionBusy
from tillerman.core.events import (
    Answer,
    Entry,
    Event,
    PermissionRequested,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    TurnEnded,
)
from tillerman.core.failure import Failure
from tillerman.core.timestamps import rfc3339
from tillerman.paths import Paths
from tillerman.sessions.lease import SessionLease
from tillerman.sessions.permissions.open_requests import checked, unknown_rule
from tillerman.sessions.permissions.project_rules import ProjectRules
from tillerman.sessions.permissions.session_rules import (
    TOLD_BY,
    Request,
    SessionRules,
    denies,
    remembered_rule,
)
from tillerman.sessions.remote.session_notifications import notify
from tillerman.store.catalog import Catalog
from tillerman.store.event_log import EventLog
from tillerman.store.session_row import SessionRow


class Recovery:
    """Recovers sessions. Callers of `end_turn` and `withdraw` must hold the session's lease."""

    def __init__(self, paths: Paths, catalog: Catalog, log: EventLog) -> None:
        self._paths = paths
        self._catalog = catalog
        self._log = log

    async def end_turn(self, row: SessionRow) -> None:
        if row.open_turn is not None:
            what = "the process that ran this session ended during the turn"
            if row.forked_from and not self._catalog.native_ids(row.id):
                what = "this session was forked during the turn"
            failure = Failure(
                kind="harness_died",
                message=what,
                hint=f"`tillerman run --resume {row.id}` continues from here",
            )
            await self._append(row, row.open_turn, [TurnEnded(reason="failed", failure=failure)])
        await asyncio.wrap_future(self._catalog.update(row.id, owner_socket=None, owner_pid=None))

    async def withdraw(self, row: SessionRow) -> None:
        """Withdraws open requests when the session resumes: its agent asks again if needed."""
        events = [
            RequestAnswered(request_id=left.request_id, answer=Answer("deny"), by="withdrawn")
            for left in self._catalog.open_requests(row.id)
        ]
        await self._append(row, row.turns, events)

    async def answer(self, session: str, request_id: str, answer: Answer, surface: str) -> None:
        """Answers a request of a session that no process runs."""
        with self._held(session) as row:
            turn, request = self._open(session, request_id)
            answer = checked(request, answer)
            if isinstance(request, PermissionRequested):  # the next agent may rename its options
                answer = replace(answer, option="deny" if denies(request, answer) else "allow")
            if (
                answer.remember == "project"
                and isinstance(request, PermissionRequested)
                and (rule := remembered_rule(request, answer))
            ):
                await asyncio.to_thread(ProjectRules.of(self._paths, row.cwd).add, rule)
            event = RequestAnswered(
                request_id=request_id, answer=answer, by="person", surface=surface, waits=True
            )
            await self._append(row, turn, [event])
        notify(self._paths.watchers, session)

    async def forget_rule(self, session: str, rule: str) -> None:
        with self._held(session) as row:
            if not SessionRules.of(self._log.of_types(session, TOLD_BY)).forget(rule):
                raise unknown_rule(rule)
            await self._append(row, row.turns, [SettingsChanged(forgotten=rule)])

    @contextmanager
    def _held(self, session: str) -> Iterator[SessionRow]:
        lease = SessionLease.take(self._paths.leases, session)
        if lease is None:
            raise SessionBusy(
                f"session {session} is being taken over by another process",
                hint="try again in a moment",
            )
        try:
            yield self._catalog.get(session)
        finally:
            lease.release()

    def _open(self, session: str, request_id: str) -> tuple[int, Request]:
        for left in self._catalog.open_requests(session):
            if left.request_id == request_id:
                for entry in self._log.since(session, left.seq - 1, 1):
                    if isinstance(entry.event, PermissionRequested | QuestionAsked):
                        return entry.turn, entry.event
        raise RequestNotOpen(request_id)

    async def _append(self, row: SessionRow, turn: int, events: Sequence[Event]) -> None:
        if not events:
            return
        at = rfc3339(datetime.now(UTC))
        entries = [
            Entry(session=row.id, seq=row.entries + i, turn=turn, at=at, event=event)
            for i, event in enumerate(events, 1)
        ]
        await asyncio.wrap_future(self._log.append([(None, entries)]))
