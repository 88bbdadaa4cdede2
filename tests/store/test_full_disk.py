"""A full volume pauses writers with a notice, loses nothing, and resumes by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.store.store_samples import WAIT, entry, row
from tillerman.core.errors import StorageFull
from tillerman.core.events import MessageChunk, Notice
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="mounting a small volume needs root"
)

NOTICE = Notice(level="error", kind="storage", text="storage full")


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "volume"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "none", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mount is not allowed here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def noise(seq: int) -> MessageChunk:
    """Half a megabyte of incompressible data."""
    return MessageChunk(message_id=str(seq), text=os.urandom(300_000).hex())


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)


def fill_up(log: EventLog, database: Database) -> tuple[list[Future[None]], list[MessageChunk]]:
    """Appends until the storage is full and at least one append waits."""
    futures: list[Future[None]] = []
    sent: list[MessageChunk] = []
    for seq in range(1, 100):
        sent.append(noise(seq))
        futures.append(log.append([(None, [entry(seq, sent[-1])])]))
        until(lambda: futures[-1].done() or database.storage == "full")
        if database.storage == "full" and seq > 1 and not futures[-1].done():
            time.sleep(0.1)  # the reserve may have let this one through
            if not futures[-1].done():
                return futures, sent
    raise AssertionError("the volume never ran full")


def test_a_full_disk_blocks_writers_and_is_recorded_and_recovers_by_itself(volume: Path) -> None:
    path = volume / "state" / "tillerman.db"
    ballast = volume / "ballast"
    ballast.write_bytes(bytes(3_000_000))
    database = Database.open(path)
    reserve = path.with_name("tillerman.db.reserve")
    assert reserve.stat().st_size == 12 * 1024 * 1024 // 8
    catalog, log = Catalog(database), EventLog(database)
    catalog.create(row()).result(WAIT)
    catalog.create(row("quiet")).result(WAIT)
    states: list[str] = []
    reported = threading.Event()
    database.watch(lambda state: (states.append(state), reported.set()))

    futures, sent = fill_up(log, database)
    assert reported.wait(WAIT)
    assert states == ["full"]
    assert not reserve.exists()

    # the freed reserve has room for the notice, though no other entries fit
    notice = log.append([(None, [entry(1, NOTICE, session="quiet")])], urgent=True)
    notice.result(WAIT)
    assert log.since("quiet")[0].event == NOTICE
    acknowledged = [future.done() for future in futures].index(False)
    assert acknowledged >= 1
    assert log.last_seq("session") >= acknowledged
    assert [found.event for found in log.since("session")][:acknowledged] == sent[:acknowledged]

    ballast.unlink()
    for future in futures:
        future.result(WAIT)
    assert [found.event for found in log.since("session")] == sent
    assert states == ["full", "ok"]
    assert reserve.exists()
    assert database.check() == ""
    database.close()


def test_the_notice_of_a_session_waits_for_what_came_before_it(volume: Path) -> None:
    database = Database.open(volume / "state" / "tillerman.db")
    ballast = volume / "ballast"
    ballast.write_bytes(bytes(3_000_000))
    log = EventLog(database)
    Catalog(database).create(row()).result(WAIT)
    _, sent = fill_up(log, database)
    notice = log.append([(None, [entry(len(sent) + 1, NOTICE)])], urgent=True)
    ballast.unlink()
    notice.result(WAIT)
    assert [found.event for found in log.since("session")] == [*sent, NOTICE]
    database.close()


def test_freed_space_is_noticed_without_a_writer(volume: Path) -> None:
    database = Database.open(volume / "state" / "tillerman.db")
    ballast = volume / "ballast"
    ballast.write_bytes(bytes(3_000_000))
    log = EventLog(database)
    Catalog(database).create(row()).result(WAIT)
    futures, sent = fill_up(log, database)
    log.append([(None, [entry(len(sent) + 1, NOTICE)])], urgent=True)
    ballast.unlink()
    for future in futures:
        future.result(WAIT)
    until(lambda: database.storage == "ok")
    database.close()


def test_closing_on_a_full_disk_fails_waiting_writes_and_returns(volume: Path) -> None:
    path = volume / "state" / "tillerman.db"
    (volume / "ballast").write_bytes(bytes(3_000_000))
    database = Database.open(path)
    Catalog(database).create(row()).result(WAIT)
    futures, sent = fill_up(EventLog(database), database)
    acknowledged = [future.done() for future in futures].index(False)
    database.close()
    assert isinstance(futures[-1].exception(0), StorageFull)
    (volume / "ballast").unlink()
    again = Database.open(path)
    held = [found.event for found in EventLog(again).since("session")]
    assert held[:acknowledged] == sent[:acknowledged]
    assert held == sent[: len(held)]
    again.close()


def test_a_store_on_a_full_disk_opens_by_releasing_its_reserve(volume: Path) -> None:
    path = volume / "state" / "tillerman.db"
    database = Database.open(path)
    Catalog(database).create(row()).result(WAIT)
    database.close()
    stuff(volume / "ballast")
    again = Database.open(path)
    assert [found.id for found in Catalog(again).list()] == ["session"]
    again.close()


def test_a_store_with_no_reserve_left_reports_that_the_disk_is_full(volume: Path) -> None:
    path = volume / "state" / "tillerman.db"
    Database.open(path).close()
    path.with_name("tillerman.db.reserve").unlink()
    stuff(volume / "ballast")
    with pytest.raises(StorageFull, match="no space left") as full:
        Database.open(path)
    assert "free" in full.value.hint
    (volume / "ballast").unlink()
    Database.open(path).close()


def stuff(file: Path) -> None:
    """Uses every byte that is left."""
    with file.open("wb", buffering=0) as ballast:
        for size in (65536, 4096):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError:
                continue
