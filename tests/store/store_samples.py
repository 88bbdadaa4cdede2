"""Rows and entries shared by the store's tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tillerman.core.events import Entry, Event, MessageChunk
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.row_codec import Received
from tillerman.store.session_row import SessionRow

AT = "2026-01-02T03:04:05.678Z"
WAIT = 10  # seconds; far beyond what any commit takes


def row(name: str = "session", **fields: object) -> SessionRow:
    return SessionRow(**{"id": name, "agent": "mock", "cwd": "/project", "created_at": AT} | fields)


def entry(seq: int, event: Event, *, session: str = "session", turn: int = 1) -> Entry:
    return Entry(session=session, seq=seq, turn=turn, at=AT, event=event)


def chunk(seq: int, *, session: str = "session", turn: int = 1) -> Entry:
    """Some are long enough to be compressed and to need a separate page."""
    words = f"words number {seq} " * (400 if seq % 50 == 0 else 30 if seq % 7 == 0 else 1)
    return entry(seq, MessageChunk(message_id="m", text=words), session=session, turn=turn)


def line(seq: int) -> bytes:
    return b'{"line":%d}' % seq


def received(
    first: int, last: int, *, session: str = "session", turn: int = 1
) -> Sequence[Received]:
    return [(line(seq), [chunk(seq, session=session, turn=turn)]) for seq in range(first, last + 1)]


def fill(path: Path, sessions: Sequence[str], count: int, *, batch: int = 25) -> None:
    """Sessions of `count` entries each, written in turns; closes the store."""
    database = Database.open(path)
    fill_open(database, sessions, count, batch=batch)
    database.close()


def fill_open(database: Database, sessions: Sequence[str], count: int, *, batch: int = 25) -> None:
    catalog, log = Catalog(database), EventLog(database)
    for name in sessions:
        catalog.create(row(name)).result(WAIT)
    for first in range(1, count + 1, batch):
        for name in sessions:
            last = min(first + batch - 1, count)
            log.append(received(first, last, session=name)).result(WAIT)
