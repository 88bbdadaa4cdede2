"""A damaged store is reported, and what is readable is returned."""

from __future__ import annotations

import fcntl
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.store.store_damage import (
    COUNT,
    FILES,
    SESSIONS,
    WANTED,
    damaged_copy,
    flip,
    inspect_store,
    make,
    quick_folder,
    silent_loss_after,
)
from tests.store.store_samples import WAIT, chunk, entry, fill, row
from tillerman.core.errors import StoreDamaged
from tillerman.core.events import AgentReady, AgentStarted, TurnStarted, UsageReported
from tillerman.store.attachments import AttachmentStore
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.salvage import LOST, open_or_salvage, salvage
from tillerman.store.search import Search


@pytest.fixture(scope="module")
def templates() -> Iterator[tuple[Path, Path]]:
    with quick_folder() as folder:
        yield make(folder)


@pytest.fixture
def copies() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


def test_a_store_left_by_a_killed_process_is_whole(
    templates: tuple[Path, Path], copies: Path
) -> None:
    killed, closed = templates
    for template in (killed, closed):
        with damaged_copy(template, copies) as path:
            found = inspect_store(path)
            assert found.report is None
            assert found.logs == WANTED


def test_one_changed_byte_anywhere_is_never_a_silent_loss(
    templates: tuple[Path, Path], copies: Path
) -> None:
    killed, closed = templates
    dice = random.Random(25)
    losses = {}
    for _ in range(25):
        template, name = dice.choice([*((killed, name) for name in FILES), (closed, FILES[0])])
        size = (template / name).stat().st_size
        offset = dice.choice([dice.randrange(size), dice.randrange(200)])
        with damaged_copy(template, copies) as path:
            flip(path.with_name(name), offset)
            if loss := silent_loss_after(path):
                losses[template.name, name, offset] = loss
    assert losses == {}


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_is_never_a_silent_loss(
    templates: tuple[Path, Path], copies: Path, name: str
) -> None:
    killed, closed = templates
    dice = random.Random(name)
    losses = {}
    for template in (killed, closed) if name == FILES[0] else (killed,):
        size = (template / name).stat().st_size
        lengths = [0, 1, 31, 32, 100, 4096, size // 2, size - 1, *dice.choices(range(size), k=2)]
        for length in lengths:
            with damaged_copy(template, copies) as path:
                os.truncate(path.with_name(name), length)
                if loss := silent_loss_after(path):
                    losses[template.name, length] = loss
    assert losses == {}


def test_a_log_that_vanished_is_detected(templates: tuple[Path, Path], copies: Path) -> None:
    killed, _ = templates
    with damaged_copy(killed, copies) as path:
        path.with_name(FILES[1]).unlink()
        with pytest.raises(StoreDamaged, match=r"only 0 of \d+ pages"):
            Database.open(path)


def test_damage_is_remembered_until_it_is_repaired(
    templates: tuple[Path, Path], copies: Path
) -> None:
    killed, _ = templates
    with damaged_copy(killed, copies) as path:
        flip(path.with_name(FILES[1]), 200_000)
        for _ in range(3):  # though SQLite took the broken log for a shorter one the first time
            with pytest.raises(StoreDamaged, match="write-ahead log") as damaged:
                Database.open(path)
            assert damaged.value.hint
        report = salvage(path)
        assert "write-ahead log" in report.why
        database = Database.open(path)
        assert EventLog(database).last_seq(SESSIONS[0]) == COUNT
        database.close()


def test_salvage_keeps_everything_around_the_damage(
    templates: tuple[Path, Path], copies: Path
) -> None:
    _, closed = templates
    with damaged_copy(closed, copies) as path:
        content = path.read_bytes()
        at = content.index(b"words number 61 ")  # in the row of one entry, on a page of many
        page = at - at % 4096
        with path.open("r+b") as file:
            file.seek(page)
            file.write(bytes(4096))
        with pytest.raises(StoreDamaged):
            look_only(path)
        report = salvage(path)
        assert report.sessions == len(SESSIONS)
        assert report.lost_entries == COUNT * len(SESSIONS) - report.entries
        assert 0 < report.lost_entries < 40
        assert str(report.lost_entries) in str(report) and str(report.aside) in str(report)
        assert (report.aside / path.name).stat().st_size == len(content)

        found = inspect_store(path)
        for name, log in found.logs.items():
            stored = [seen for seen in log if seen.event != LOST]
            assert stored == [WANTED[name][seen.seq - 1] for seen in stored]
        assert found.lost == report.lost_entries
        database = Database.open(path)
        assert database.check() == ""
        assert [hit.session for hit in Search(database).search("find")] == [SESSIONS[0]]
        assert len(database.query("SELECT data FROM attachments")[0][0]) == 256 * 40
        database.close()


def look_only(path: Path) -> None:
    database = Database.open(path)
    try:
        for name in SESSIONS:
            EventLog(database).since(name, limit=10_000)
    finally:
        database.close()


def test_a_session_whose_row_is_lost_keeps_its_entries(path: Path) -> None:
    database = Database.open(path)
    catalog, log = Catalog(database), EventLog(database)
    catalog.create(row("one")).result(WAIT)
    events = [
        AgentStarted(agent="claude"),
        AgentReady(native_id="native"),
        TurnStarted(origin="prompt", prompt="go"),
        UsageReported(input_tokens=3),
    ]
    log.append([(b"l", [entry(seq, event, session="one") for seq, event in enumerate(events, 1)])])
    log.append([(None, [chunk(5, session="one")])]).result(WAIT)
    database.write(lambda connection: connection.execute("DELETE FROM sessions")).result(WAIT)
    database.close()
    Path(f"{path}.damaged").write_text('{"why": "rows were taken out"}')

    report = salvage(path)
    assert report.unnamed_sessions == ("salvaged-1",)
    database = Database.open(path)
    found = Catalog(database).get("salvaged-1")
    assert (found.agent, found.native_id, found.prompt) == ("claude", "native", "go")
    assert (found.entries, found.open_turn, found.input_tokens) == (5, 1, 3)
    assert found.status == "running"
    assert [seen.event for seen in EventLog(database).since("salvaged-1")][:4] == events
    assert EventLog(database).raw("salvaged-1", 2) == b"l"
    database.close()


def test_what_was_deleted_does_not_come_back_by_salvage(path: Path) -> None:
    fill(path, ["kept", "gone"], 200)
    database = Database.open(path)
    AttachmentStore(database).put("gone", b"gone bytes").result(WAIT)
    Catalog(database).delete("gone").result(WAIT)
    database.close()
    Path(f"{path}.damaged").write_text('{"why": "to see what is found"}')
    report = salvage(path)
    assert (report.sessions, report.entries, report.lost_entries) == (1, 200, 0)
    database = Database.open(path)
    assert [found.id for found in Catalog(database).list()] == ["kept"]
    assert database.query("SELECT count(*) FROM attachments") == [(0,)]
    database.close()


def test_a_salvage_that_was_interrupted_starts_again_from_the_copy(path: Path) -> None:
    fill(path, ["session"], 50)
    Path(f"{path}.damaged").write_text('{"why": "a try"}')
    first = salvage(path)
    # as if it had been killed after the copy was made and the file already taken away
    path.unlink()
    Path(f"{path}.damaged").write_text(f'{{"why": "a try", "aside": "{first.aside}"}}')
    with pytest.raises(StoreDamaged):
        Database.open(path)
    again = salvage(path)
    assert (again.entries, again.aside) == (50, first.aside)
    database = Database.open(path)
    assert EventLog(database).last_seq("session") == 50
    database.close()


def test_a_store_that_others_have_open_is_not_replaced_under_them(path: Path) -> None:
    fill(path, ["session"], 5)
    database = Database.open(path)
    with pytest.raises(StoreDamaged, match="other processes have it open") as busy:
        salvage(path)
    assert "stop all other" in busy.value.hint
    database.close()


def test_a_damaged_store_can_still_be_read(templates: tuple[Path, Path], copies: Path) -> None:
    _, closed = templates
    with damaged_copy(closed, copies) as path:
        Path(f"{path}.damaged").write_text('{"why": "it was"}')
        database = Database.open(path, read_only=True)
        assert EventLog(database).since(SESSIONS[0]) == WANTED[SESSIONS[0]]
        database.close()


def test_a_file_that_is_no_database_is_damaged_and_not_overwritten(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("certainly not a database, but somebody's words " * 200)
    with pytest.raises(StoreDamaged):
        Database.open(path)
    report = salvage(path)
    assert (report.sessions, report.entries) == (0, 0)
    assert (report.aside / path.name).read_text().startswith("certainly not")


def test_an_emptied_store_is_not_taken_for_a_new_one(path: Path) -> None:
    fill(path, ["session"], 5)
    os.truncate(path, 0)
    with pytest.raises(StoreDamaged, match="unexpectedly empty"):
        Database.open(path)


def test_a_removed_store_is_a_new_one(path: Path) -> None:
    fill(path, ["session"], 5)
    path.unlink()
    database = Database.open(path)
    assert Catalog(database).list() == []
    database.close()


def test_damage_found_by_a_writer_stops_it(path: Path) -> None:
    fill(path, ["session"], 400)
    content = path.read_bytes()
    schema = apsw.Connection(str(path))
    root = schema.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entries_by_seq'").get
    schema.close()
    assert len(content) > root * 4096
    database = Database.open(path)
    with path.open("r+b") as file:  # not closed by us: that would drop SQLite's locks
        file.seek((root - 1) * 4096)
        file.write(bytes(4096))
        file.flush()
        error = EventLog(database).append([(None, [chunk(401)])]).exception(WAIT)
        assert isinstance(error, StoreDamaged)
        assert database.storage == "failed"
        assert database.failure is error
        database.close()
    assert salvage(path).entries == 400


def test_opening_waits_for_a_salvage_to_end(path: Path) -> None:
    fill(path, ["session"], 5)
    lock = os.open(f"{path}.lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    opened: list[Database] = []
    thread = threading.Thread(target=lambda: opened.append(Database.open(path)))
    thread.start()
    thread.join(0.2)
    assert not opened
    os.close(lock)
    thread.join(WAIT)
    assert EventLog(opened[0]).last_seq("session") == 5
    opened[0].close()


def test_opening_a_damaged_store_repairs_it_and_reports_the_result(
    templates: tuple[Path, Path], copies: Path
) -> None:
    killed, _ = templates
    with damaged_copy(killed, copies) as path:
        database, report = open_or_salvage(path)
        database.close()
        assert report is None
        flip(path, 30)
        flip(path, 0)
        database, report = open_or_salvage(path)
        assert report is not None
        assert (report.sessions, report.lost_entries) == (len(SESSIONS), 0)
        assert EventLog(database).since(SESSIONS[1]) == WANTED[SESSIONS[1]]
        database.close()
