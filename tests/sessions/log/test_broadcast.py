"""The past from the log, then live: the same entries for every reader, and few of them in
memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from weakref import ref

import pytest

from tillerman.core.events import Entry, MessageChunk
from tillerman.sessions.log.broadcast import READ_BYTES, RECENT_BYTES, Broadcast
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.session_row import SessionRow

AT = "2026-01-01T00:00:00.000Z"
PAGE = READ_BYTES // 4


class Page(list[Entry]):
    """A list whose deletion can be observed."""


pages: list[ref[Page]] = []


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database.open(tmp_path / "tillerman.db")
    Catalog(database).create(SessionRow(id="s", agent="mock", cwd="/", created_at=AT)).result(5)
    yield database
    database.close()


@pytest.fixture
def log(database: Database) -> EventLog:
    return EventLog(database)


@pytest.fixture
def broadcast(log: EventLog) -> Broadcast:
    return Broadcast("s", log, 0)


def publish(
    broadcast: Broadcast, log: EventLog, count: int = 1, *, stored: bool = True
) -> list[Entry]:
    """Publishes entries of a page each. What is not stored can only be in memory."""
    entries = [
        Entry(
            session="s", seq=seq, turn=1, at=AT, event=MessageChunk(message_id="m", text=f"{seq} ")
        )
        for seq in range(broadcast.last_seq + 1, broadcast.last_seq + 1 + count)
    ]
    if stored:
        log.write(entries).result(5)
    for entry in entries:
        page = Page([entry])
        pages.append(ref(page))
        broadcast.publish(page, PAGE)
    return entries


def held() -> int:
    """The pages in memory."""
    gc.collect()
    return sum(page() is not None for page in pages)


async def read(reader: AsyncIterator[object], count: int) -> list[object]:
    async with asyncio.timeout(5):
        return [await anext(reader) for _ in range(count)]


async def test_a_late_reader_sees_the_same_entries_as_an_early_one(
    broadcast: Broadcast, log: EventLog
) -> None:
    early = broadcast.entries()
    messages: list[object] = []
    seen: list[object] = []
    for _ in range(40):
        messages += publish(broadcast, log)
        seen += await read(early, 1)
    assert seen == messages
    assert await read(broadcast.entries(), 40) == messages


async def test_entries_a_slow_reader_still_needs_come_from_memory(
    broadcast: Broadcast, log: EventLog
) -> None:
    slow = broadcast.entries()
    reported = publish(broadcast, log, stored=False)
    assert await read(slow, 1) == reported
    reported = publish(broadcast, log, RECENT_BYTES // PAGE // 2, stored=False)
    assert await read(slow, len(reported)) == reported


async def test_a_reader_that_is_far_behind_reads_the_log(
    broadcast: Broadcast, log: EventLog
) -> None:
    slow = broadcast.entries()
    reported = publish(broadcast, log)
    assert await read(slow, 1) == reported
    reported = publish(broadcast, log, 2 * RECENT_BYTES // PAGE)
    assert await read(slow, len(reported)) == reported


async def test_entries_every_reader_has_are_dropped_from_memory(
    broadcast: Broadcast, log: EventLog
) -> None:
    readers = [broadcast.entries() for _ in range(2)]
    for _ in range(100):
        publish(broadcast, log)
        for reader in readers:
            await read(reader, 1)
    assert held() <= READ_BYTES // PAGE + 1


async def test_a_reader_that_disconnected_holds_nothing_back(
    broadcast: Broadcast, log: EventLog
) -> None:
    gone = broadcast.pages()
    publish(broadcast, log)
    await read(gone, 1)
    await gone.aclose()  # type: ignore[attr-defined]
    publish(broadcast, log, 100)
    assert held() <= READ_BYTES // PAGE + 1
