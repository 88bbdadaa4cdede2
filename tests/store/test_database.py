"""The database file: its permissions, its schema, and its transactions."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from tests.store.store_samples import WAIT, fill, received, row
from tillerman.core.errors import StoreDamaged, StoreError, StoreNewer
from tillerman.store import migrations
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.search import Search


def test_only_its_user_can_read_the_store_or_anything_beside_it(
    path: Path, database: Database
) -> None:
    Catalog(database).create(row()).result(WAIT)
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert {"tillerman.db", "tillerman.db-wal", "tillerman.db-shm"} <= modes.keys()
    assert set(modes.values()) == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_store_that_others_could_read_is_closed_to_them(path: Path) -> None:
    fill(path, ["session"], 1)
    path.chmod(0o644)
    Database.open(path).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_every_commit_is_synced(database: Database) -> None:
    seen = database.write(
        lambda connection: (connection.pragma("journal_mode"), connection.pragma("synchronous"))
    )
    assert seen.result(WAIT) == ("wal", 2)


def test_a_newer_store_is_refused_and_left_as_it_was(path: Path) -> None:
    fill(path, ["session"], 1)
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", migrations.NEWEST + 1)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreNewer, match="newer tillerman") as refused:
        Database.open(path)
    assert "upgrade tillerman" in refused.value.hint
    with pytest.raises(StoreNewer):
        Database.open(path, read_only=True)
    assert path.read_bytes() == before


def test_the_database_of_another_program_is_refused(path: Path) -> None:
    path.parent.mkdir()
    connection = apsw.Connection(str(path))
    connection.pragma("application_id", 0x12345678)
    connection.execute("CREATE TABLE birds (name)")
    connection.close()
    with pytest.raises(StoreError, match="another program"):
        Database.open(path)


@pytest.mark.parametrize("old", range(migrations.NEWEST))
def test_an_older_store_is_brought_up_to_date_with_all_it_holds(path: Path, old: int) -> None:
    path.parent.mkdir()
    connection = apsw.Connection(str(path))
    migrations.migrate(connection, str(path), old)
    if old:
        connection.execute(
            "INSERT INTO sessions VALUES (1, 'session', 'mock', '/project', 'idle', NULL, NULL, "
            "NULL, NULL, NULL, NULL, NULL, NULL, 0, '{}', 'then', 'then', 0, 0, NULL, 0, 0, 0, "
            "NULL, 1)".replace("'{}'", "x'7b7d'")
        )
    assert migrations.version(connection) == old
    connection.close()

    database = Database.open(path)
    catalog = Catalog(database)
    if not old:
        catalog.create(row()).result(WAIT)
    EventLog(database).append(received(1, 3)).result(WAIT)
    Search(database).index("session", 1, [("agent", "migrated words")]).result(WAIT)
    assert migrations.version(database.read()) == migrations.NEWEST
    assert catalog.get("session").entries == 3
    assert [hit.session for hit in Search(database).search("migrated")] == ["session"]
    database.close()


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    path.parent.mkdir()
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE attachments (something)")  # in the way of the last step
    with pytest.raises(apsw.SQLError):
        migrations.migrate(connection, str(path))
    tables = connection.execute("SELECT name FROM sqlite_schema").fetchall()
    assert tables == [("attachments",)]
    assert migrations.version(connection) == 0
    connection.close()


def test_a_failed_operation_does_not_affect_others(database: Database) -> None:
    catalog = Catalog(database)
    started, go_on = threading.Event(), threading.Event()

    def hold(_: apsw.Connection) -> None:
        started.set()
        go_on.wait(WAIT)

    held = database.write(hold)  # so that the three after it share one transaction
    assert started.wait(WAIT)
    futures = [catalog.create(row("one")), catalog.create(row("one")), catalog.create(row("two"))]
    go_on.set()
    held.result(WAIT)
    errors = [future.exception(WAIT) for future in futures]
    assert [str(error) for error in errors] == [
        "None", "session 'one' already exists", "None"
    ]  # fmt: skip
    assert [found.id for found in catalog.list()] == ["two", "one"]


def test_waiting_writers_share_one_commit(database: Database) -> None:
    commits = []
    started, go_on = threading.Event(), threading.Event()

    def hold(connection: apsw.Connection) -> None:
        connection.set_commit_hook(lambda: bool(commits.append(1)))
        started.set()
        go_on.wait(WAIT)

    held = database.write(hold)
    assert started.wait(WAIT)
    catalog = Catalog(database)
    futures = [catalog.create(row(f"session-{number}")) for number in range(100)]
    go_on.set()
    for future in [held, *futures]:
        future.result(WAIT)
    assert len(commits) == 2


def test_nothing_is_acknowledged_before_another_process_could_read_it(
    path: Path, database: Database
) -> None:
    Catalog(database).create(row()).result(WAIT)
    other = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    seen = []
    for seq in range(1, 51):
        future = EventLog(database).append(received(seq, seq))
        future.result(WAIT)
        seen += other.execute("SELECT max(seq) FROM entries").fetchall()
    other.close()
    assert seen == [(seq,) for seq in range(1, 51)]


def test_closing_commits_waiting_writes_and_refuses_later_ones(path: Path) -> None:
    database = Database.open(path)
    future = Catalog(database).create(row())
    database.close()
    future.result(0)
    with pytest.raises(StoreError, match="closed"):
        Catalog(database).create(row("late")).result(WAIT)
    with pytest.raises(StoreError, match="closed"):
        Catalog(database).list()
    again = Database.open(path)
    assert [found.id for found in Catalog(again).list()] == ["session"]
    again.close()


def test_a_reader_cannot_write(database: Database) -> None:
    with pytest.raises(apsw.ReadOnlyError):
        database.read().execute("DELETE FROM sessions")


def test_a_store_open_for_reading_refuses_writers(path: Path) -> None:
    fill(path, ["session"], 3)
    database = Database.open(path, read_only=True)
    assert EventLog(database).last_seq("session") == 3
    with pytest.raises(StoreError, match="is open read-only"):
        EventLog(database).append(received(4, 4)).result(WAIT)
    database.close()


def test_reading_a_missing_store_creates_none(path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        Database.open(path, read_only=True)
    assert not path.exists()


def test_a_store_that_cannot_be_opened_is_reported_with_its_file_and_the_reason(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    with pytest.raises(StoreError, match=r"tillerman\.db cannot be opened") as refused:
        Database.open(tmp_path / "state" / "tillerman.db")
    assert not isinstance(refused.value, StoreDamaged)
    assert refused.value.hint


def test_an_intact_store_passes_its_check(path: Path) -> None:
    fill(path, ["one", "two"], 100)
    database = Database.open(path)
    assert database.check() == ""
    database.close()


def test_opening_a_store_twice_in_one_process_drops_no_lock_of_the_first(path: Path) -> None:
    first = Database.open(path)
    Catalog(first).create(row()).result(WAIT)
    started, go_on = threading.Event(), threading.Event()

    def hold(_: apsw.Connection) -> None:
        started.set()
        go_on.wait(WAIT)

    held = first.write(hold)
    assert started.wait(WAIT)
    second = Database.open(path)  # while the first is in the middle of a transaction
    intruder = "import apsw, sys; c = apsw.Connection(sys.argv[1]); c.execute('BEGIN IMMEDIATE')"
    tried = subprocess.run([sys.executable, "-c", intruder, path], capture_output=True, text=True)
    go_on.set()
    held.result(WAIT)
    second.close()
    first.close()
    assert "BusyError" in tried.stderr
