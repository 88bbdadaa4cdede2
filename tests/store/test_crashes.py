"""Processes that share a store, die during a write, or write to a failing disk."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.store.store_samples import WAIT, chunk, received
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.store.store_child", *map(str, arguments)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        text=True,
    )


def write_at_once(path: Path, processes: int, count: int) -> None:
    names = [f"session-{number}" for number in range(processes)]
    children = [start("append", path, name, count) for name in names]
    assert [child.wait(120) for child in children] == [0] * processes
    database = Database.open(path)
    log = EventLog(database)
    for name in names:
        seen = log.since(name, limit=count + 1)
        assert seen == [chunk(seq, session=name) for seq in range(1, count + 1)]
    assert database.check() == ""
    database.close()


def test_four_processes_write_at_once_without_a_gap(path: Path) -> None:
    write_at_once(path, 4, 1_000)


@pytest.mark.torture
def test_eight_processes_write_eighty_thousand_entries_without_a_gap(path: Path) -> None:
    write_at_once(path, 8, 10_000)


@pytest.mark.parametrize("acknowledged", [5, 60, 333])
def test_a_killed_writer_loses_nothing_it_acknowledged(path: Path, acknowledged: int) -> None:
    child = start("stream", path, "session")
    assert child.stdout
    for printed in child.stdout:
        if int(printed) >= acknowledged:
            break
    child.kill()
    # what was printed between the last line read and the kill was acknowledged as well
    last = max([int(printed), *map(int, child.stdout.read().split("\n")[:-1])])
    child.wait(WAIT)

    database = Database.open(path)
    log = EventLog(database)
    held = log.last_seq("session")
    assert held >= last
    assert log.since("session", limit=100_000) == [chunk(seq) for seq in range(1, held + 1)]

    # a client that got no acknowledgement sends the tail again
    log.append(received(last + 1 - 3, held + 4)).result(WAIT)
    assert log.since("session", limit=100_000) == [chunk(seq) for seq in range(1, held + 5)]
    database.close()


def test_a_writer_killed_while_another_works_holds_it_up_for_no_longer_than_a_moment(
    path: Path,
) -> None:
    first, second = start("stream", path, "one"), start("stream", path, "two")
    assert first.stdout and second.stdout
    try:
        first.stdout.readline()
        second.stdout.readline()
        first.kill()
        first.wait(WAIT)
        seen = [int(second.stdout.readline()) for _ in range(40)]
    finally:
        for child in (first, second):
            child.kill()
            child.wait(WAIT)
            child.stdout.close()
    assert seen == sorted(seen)
    database = Database.open(path)
    assert EventLog(database).last_seq("two") >= seen[-1]
    assert {found.id for found in Catalog(database).list()} == {"one", "two"}
    database.close()


def test_a_failed_fsync_stops_the_store_with_an_error(path: Path) -> None:
    path.parent.mkdir()
    child = start("broken-sync", path)
    printed, _ = child.communicate(timeout=30)
    assert child.returncode == 0
    at_it, after_it, state = printed.splitlines()
    assert at_it == after_it == f"the disk under {path} failed: input/output error"
    assert state == "failed ['failed'] 3"
    assert path.with_name("tillerman.db-wal").exists()  # not folded into the database in a hurry

    database = Database.open(path)  # a new process reads the disk again, and nothing was lost
    assert EventLog(database).since("session")[:3] == [chunk(1), chunk(2), chunk(3)]
    database.close()
