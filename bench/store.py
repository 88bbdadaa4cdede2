"""Store throughput: append and read rates, as ratios measured in one run.

    python bench/store.py [EVENTS]

Rates vary with the disk; compare the ratios. The large store has EVENTS events.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tillerman.core.events import Entry, MessageChunk, encode
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.search import Search
from tillerman.store.session_row import SessionRow

BATCH = 256  # events per read of an agent's pipe
IN_FLIGHT = 8
SMALL = 40_000
AT = "2026-01-02T03:04:05.678Z"
EVENT = MessageChunk(message_id="msg_0123456789abcdef", text="a chunk of some eighty bytes " * 3)
LINE = b'{"type":"stream_event","event":{"delta":{"type":"text_delta","text":"a chunk of it"}}}'


def received(session: str, first: int, count: int) -> list[tuple[bytes, list[Entry]]]:
    return [
        (LINE, [Entry(session=session, seq=seq, turn=1, at=AT, event=EVENT)])
        for seq in range(first, first + count)
    ]


def create(catalog: Catalog, name: str) -> None:
    catalog.create(SessionRow(id=name, agent="mock", cwd="/project", created_at=AT)).result()


def append(log: EventLog, session: str, events: int, batch: int, in_flight: int) -> None:
    waiting: list[Future[None]] = []
    for first in range(1, events + 1, batch):
        waiting.append(log.append(received(session, first, min(batch, events + 1 - first))))
        if len(waiting) >= in_flight:
            waiting.pop(0).result()
    for future in waiting:
        future.result()


def rate(count: int, work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def raw_appends(folder: Path, events: int) -> None:
    """The baseline: the same bytes in one file, synced once per batch."""
    record = (encode(EVENT) + LINE) * BATCH
    descriptor = os.open(folder / "raw", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for _ in range(events // BATCH):
        os.write(descriptor, record)
        os.fdatasync(descriptor)
    os.close(descriptor)


def milliseconds(work: Callable[[], object], times: int = 21) -> float:
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1000


def measure_appends(folder: Path) -> None:
    database = Database.open(folder / "append.db")
    catalog, log = Catalog(database), EventLog(database)
    for name in ("batches", "single", "warm"):
        create(catalog, name)
    append(log, "warm", 5_000, BATCH, IN_FLIGHT)
    ours = rate(SMALL, lambda: append(log, "batches", SMALL, BATCH, IN_FLIGHT))
    single = rate(500, lambda: append(log, "single", 500, 1, 1))
    raw = rate(SMALL, lambda: raw_appends(folder, SMALL))
    database.close()
    print(f"append, synced (FULL), batches of {BATCH}: {ours:>10,.0f} events/s")
    print(f"  against one commit per event:         {ours / single:>8.1f} x  ({single:,.0f}/s)")
    print(f"  against raw append + fdatasync:       {ours / raw:>8.2f} x  ({raw:,.0f}/s)")


def fill(path: Path, events: int) -> Database:
    database = Database.open(path)
    catalog, log, search = Catalog(database), EventLog(database), Search(database)
    sessions = max(1, events // 5_000)
    for number in range(sessions):
        name = f"session-{number}"
        create(catalog, name)
        append(log, name, events // sessions, 1000, IN_FLIGHT)
        words = [("agent", f"words of turn {turn} in session {number} " * 20) for turn in range(20)]
        search.index(name, 1, [*words, ("user", f"needle{number % 50}")]).result()
    return database


def measure_reads(folder: Path, events: int) -> None:
    empty = Database.open(folder / "empty.db")
    create(Catalog(empty), "only")
    Search(empty).index("only", 1, [("user", "needle7")]).result()
    large = fill(folder / "large.db", events)
    size = (folder / "large.db").stat().st_size >> 20
    print(f"{events:,} events ({size} MB), against a store of one session:")
    reads: dict[str, Callable[[Database], object]] = {
        "list 50 sessions": lambda database: Catalog(database).list(),
        "search a rare word": lambda database: Search(database).search("needle7"),
        "search a common word": lambda database: Search(database).search("words"),
        "last 1,000 entries": lambda database: EventLog(database).since(
            "session-0", max(0, EventLog(database).last_seq("session-0") - 1000)
        ),
    }
    for name, read in reads.items():
        slow, fast = (milliseconds(partial(read, database)) for database in (large, empty))
        print(f"  {name + ':':<24}{slow:>8.2f} ms   {slow / fast:>6.1f} x")
    path = folder / "large.db"
    large.close()
    print(
        f"  {'open and close:':<24}{milliseconds(lambda: Database.open(path).close(), 5):>8.2f} ms"
    )
    empty.close()


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with TemporaryDirectory(dir=os.environ.get("TILLERMAN_BENCH_DIR")) as folder:
        measure_appends(Path(folder))
        measure_reads(Path(folder), events)


if __name__ == "__main__":
    main()
