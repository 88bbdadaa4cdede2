"""The list of workspace processes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.store.store_samples import AT, WAIT, row
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.process_table import COLUMNS, ProcessTable
from tillerman.store.salvage import salvage

LATER = "2026-01-03T03:04:05.678Z"


@pytest.fixture
def table(database: Database) -> ProcessTable:
    return ProcessTable(database)


def process(name: str = "p1", session: str = "session", **fields: object) -> WorkspaceProcess:
    given = {"command": "sleep 1", "cwd": "/project", "mode": "async", "isolation": "basic"}
    return WorkspaceProcess(**{"id": name, "session": session, "began_at": AT} | given | fields)


def ended(name: str, at: str, **fields: object) -> WorkspaceProcess:
    return process(name, status="finished", code=0, ended_at=at, **fields)


def test_a_process_comes_back_as_it_was_added(table: ProcessTable) -> None:
    whole = process(
        status="failed",
        pid=7,
        started="123",
        boot="b",
        code=1,
        signal=9,
        ended_at=LATER,
        stdout_bytes=1 << 40,
        stderr_bytes=2,
        stdout_kept=3,
        stderr_kept=4,
        why="why",
        warden="marker",
        command="echo \ud800",
    )
    table.add(whole).result(WAIT)
    assert table.get("p1") == msgspec.structs.replace(whole, command="echo \ufffd")
    assert table.get("p2") is None


def test_another_of_the_same_name_is_refused_and_the_first_stays(table: ProcessTable) -> None:
    table.add(process(command="first")).result(WAIT)
    with pytest.raises(Exception, match="UNIQUE"):
        table.add(process(command="second")).result(WAIT)
    assert [one.command for one in table.list()] == ["first"]


def test_the_list_is_of_one_session_or_of_all_and_of_those_that_run(table: ProcessTable) -> None:
    for one in (process("a"), process("b", "other", status="running"), ended("c", LATER)):
        table.add(one).result(WAIT)
    assert [one.id for one in table.list()] == ["a", "b", "c"]
    assert [one.id for one in table.list("session")] == ["a", "c"]
    assert [one.id for one in table.list(live=True)] == ["a", "b"]
    assert [one.id for one in table.list("session", live=True)] == ["a"]


def test_a_process_ends_once(table: ProcessTable) -> None:
    table.add(process()).result(WAIT)
    assert table.change("p1", status="running", pid=3).result(WAIT)
    assert table.change("p1", status="killed", signal=9, ended_at=LATER).result(WAIT)
    assert not table.change("p1", status="lost", why="late").result(WAIT)
    assert not table.change("nobody", status="lost").result(WAIT)
    found = table.get("p1")
    assert found
    assert (found.status, found.pid, found.signal, found.why) == ("killed", 3, 9, None)


def test_immutable_fields_cannot_be_changed(table: ProcessTable) -> None:
    with pytest.raises(TypeError):
        table.change("p1", session="other")


def test_those_that_ended_long_ago_are_found_and_removed(table: ProcessTable) -> None:
    for one in (ended("old", AT), ended("new", LATER), process("runs")):
        table.add(one).result(WAIT)
    assert [one.id for one in table.expired(LATER)] == ["old"]
    table.remove(["old"]).result(WAIT)
    assert [one.id for one in table.list()] == ["new", "runs"]


def test_a_deleted_session_deletes_its_processes(table: ProcessTable, catalog: Catalog) -> None:
    catalog.create(row("session")).result(WAIT)
    table.add(process()).result(WAIT)
    table.add(process("p2", "other")).result(WAIT)
    catalog.delete("session").result(WAIT)
    assert [one.id for one in table.list()] == ["p2"]


def test_each_column_is_a_field(database: Database) -> None:
    found = database.query("SELECT name FROM pragma_table_info('processes')")
    assert [name for (name,) in found] == ["number", *COLUMNS]


def test_a_damaged_store_forgets_no_process(path: Path) -> None:
    database = Database.open(path)
    stored = [process("a", status="running", pid=1), ended("b", LATER)]
    for one in stored:
        ProcessTable(database).add(one).result(WAIT)
    database.close()
    Path(f"{path}.damaged").write_text('{"why": "to see what is found"}')
    salvage(path)
    database = Database.open(path)
    assert ProcessTable(database).list() == stored
    database.close()
