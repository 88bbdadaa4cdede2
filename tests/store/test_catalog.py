"""The list of sessions reflects their entries and the user's changes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.store.store_samples import AT, WAIT, chunk, entry, line, received, row
from tillerman.core.errors import SessionError, SessionNotFound
from tillerman.core.events import (
    AgentExited,
    AgentReady,
    Answer,
    PermissionRequested,
    Question,
    QuestionAsked,
    RequestAnswered,
    SettingsChanged,
    TurnEnded,
    TurnStarted,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.store.attachments import AttachmentStore
from tillerman.store.catalog import DELETE_SLICE, Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog
from tillerman.store.search import Search
from tillerman.store.session_row import OpenRequest

LATER = "2027-01-01T00:00:00Z"


def replaced(found, **fields):
    return msgspec.structs.replace(found, **fields)


def test_a_session_comes_back_as_it_was_created(catalog: Catalog) -> None:
    created = row(
        "abc", title="Title \ud800", settings={"effort": "high", "folders": ["/a"]}, owner_pid=7
    )
    catalog.create(created).result(WAIT)
    assert catalog.get("abc") == replaced(created, updated_at=AT, title="Title \ufffd")


def test_entries_keep_their_session_up_to_date(catalog: Catalog, log: EventLog) -> None:
    catalog.create(row()).result(WAIT)
    first = [
        TurnStarted(origin="prompt", prompt="mend the bridge"),
        AgentReady(native_id="native-1", model="small"),
        UsageReported(input_tokens=10, output_tokens=3, cached_tokens=8, cost_usd=0.5),
        TurnEnded(reason="completed"),
    ]
    log.append([(None, [entry(seq, event) for seq, event in enumerate(first, 1)])]).result(WAIT)
    second = [
        TurnStarted(origin="agent"),
        SettingsChanged(model="large", title="Bridges"),
        UsageReported(input_tokens=5, cost_usd=0.25),
    ]
    entries = [
        msgspec.structs.replace(entry(seq, event, turn=2), at=LATER)
        for seq, event in enumerate(second, 5)
    ]
    log.append([(None, entries)]).result(WAIT)
    assert catalog.get("session") == row(
        updated_at=LATER, prompt="mend the bridge", title="Bridges", model="large",
        native_id="native-1", status="running", entries=7, turns=2, open_turn=2, input_tokens=15,
        output_tokens=3, cached_tokens=8, cost_usd=0.75,
    )  # fmt: skip


def test_the_status_is_that_of_the_last_turn(catalog: Catalog, log: EventLog) -> None:
    catalog.create(row()).result(WAIT)
    failure = Failure(kind="agent_failed", message="no")
    reported = [
        AgentReady(native_id="n"),
        TurnStarted(origin="prompt", prompt="go"),
        TurnEnded(reason="failed", failure=failure),
        TurnStarted(origin="agent"),
        TurnEnded(reason="cancelled"),
        TurnStarted(origin="prompt", prompt="on"),
        TurnEnded(reason="completed"),
        AgentExited(code=0),
    ]
    seen = []
    for seq, event in enumerate(reported, 1):
        log.append([(None, [entry(seq, event)])]).result(WAIT)
        seen.append(catalog.get("session").status)
    assert seen == [
        "new", "running", "failed", "running", "cancelled", "running", "completed", "completed"
    ]  # fmt: skip
    assert [found.id for found in catalog.list(status="completed")] == ["session"]

    def forked(seq: int) -> str:
        return catalog.fork("session", f"f{seq}", created_at=AT, up_to_seq=seq).result(WAIT).status

    assert [forked(seq) for seq in range(1, 9)] == seen


def test_a_turn_without_an_end_is_found_until_it_ends(catalog: Catalog, log: EventLog) -> None:
    for name in ("one", "two"):
        catalog.create(row(name)).result(WAIT)
    start = TurnStarted(origin="prompt", prompt="go")
    log.append([(None, [entry(1, start, session="one", turn=1)])]).result(WAIT)
    log.append([(None, [entry(1, start, session="two", turn=1)])]).result(WAIT)
    assert [(found.id, found.open_turn) for found in catalog.open_turns()] == [
        ("one", 1), ("two", 1)
    ]  # fmt: skip
    log.append([(None, [entry(2, TurnEnded(reason="completed"), session="one")])]).result(WAIT)
    assert [found.id for found in catalog.open_turns()] == ["two"]


def test_the_most_recently_active_session_is_first_despite_clock_changes(
    catalog: Catalog, log: EventLog
) -> None:
    for name in ("one", "two", "three"):
        catalog.create(row(name)).result(WAIT)
    long_ago = msgspec.structs.replace(chunk(1, session="one"), at="1999-01-01T00:00:00Z")
    log.append([(None, [long_ago])]).result(WAIT)
    assert [found.id for found in catalog.list()] == ["one", "three", "two"]
    catalog.touch("two").result(WAIT)
    assert catalog.get("last").id == "two"


def test_listing_narrows_by_folder_agent_and_status(catalog: Catalog) -> None:
    catalog.create(row("a", cwd="/x", agent="claude")).result(WAIT)
    catalog.create(row("b", cwd="/y", status="running")).result(WAIT)
    catalog.create(row("c", cwd="/x")).result(WAIT)

    def ids(**wanted) -> list[str]:
        return [found.id for found in catalog.list(**wanted)]

    assert ids() == ["c", "b", "a"]
    assert ids(cwd="/x") == ["c", "a"]
    assert ids(agent="claude") == ["a"]
    assert ids(status="running") == ["b"]
    assert ids(limit=1, offset=1) == ["b"]
    assert catalog.get("last", cwd="/y").id == "b"
    assert catalog.count() == 3


def test_a_session_is_found_by_words_of_its_title(catalog: Catalog) -> None:
    for id, title in (("a", "Old Bridges"), ("b", None), ("c", "New bridges % _")):
        catalog.create(row(id, title=title)).result(WAIT)
    assert [found.id for found in catalog.titled("bridges")] == ["c", "a"]
    assert [found.id for found in catalog.titled("% _")] == ["c"]
    assert catalog.titled("roads") == []


def test_a_session_is_found_by_a_prefix_of_its_id(catalog: Catalog) -> None:
    for name in ("abcd", "abce", "ab", "x%_"):
        catalog.create(row(name)).result(WAIT)
    assert catalog.get("abcd").id == "abcd"
    assert catalog.get("ab").id == "ab"  # the whole id wins over a beginning
    assert catalog.get("x").id == "x%_"
    with pytest.raises(SessionError, match="'abc' matches several sessions") as several:
        catalog.get("abc")
    assert "abcd" in several.value.hint
    for nobody in ("zz", "%", "_", "", "ABCD", "\ud800"):
        with pytest.raises(SessionNotFound):
            catalog.get(nobody)


def test_last_of_an_empty_store_is_not_found(catalog: Catalog) -> None:
    with pytest.raises(SessionNotFound):
        catalog.get("last")


def test_changing_a_row_changes_that_row_alone(catalog: Catalog) -> None:
    for name in ("one", "two"):
        catalog.create(row(name)).result(WAIT)
    catalog.update("one", owner_pid=42, owner_socket="/run/s", settings={"a": 1}).result(WAIT)
    catalog.rename("one", "New name").result(WAIT)
    assert catalog.get("one") == row(
        "one", updated_at=AT, owner_pid=42, owner_socket="/run/s",
        settings={"a": 1}, title="New name",
    )  # fmt: skip
    assert catalog.get("two") == row("two", updated_at=AT)
    catalog.update("one", owner_pid=None, owner_socket=None).result(WAIT)
    assert catalog.get("one").owner_pid is None


def test_only_fields_no_entry_sets_can_be_changed_directly(catalog: Catalog) -> None:
    catalog.create(row()).result(WAIT)
    with pytest.raises(TypeError, match=r"\['entries', 'status'\]"):
        catalog.update("session", entries=7, status="running")
    with pytest.raises(SessionNotFound):
        catalog.update("nobody", title="none").result(WAIT)
    with pytest.raises(SessionError, match="already"):
        catalog.create(row()).result(WAIT)


def test_a_session_keeps_each_id_its_agent_ever_gave_it(catalog: Catalog, log: EventLog) -> None:
    catalog.create(row("one", native_id="n0")).result(WAIT)
    ready = [AgentReady(native_id="n1"), AgentReady(native_id="n2"), AgentReady(native_id="n1")]
    entries = [entry(seq, event, session="one") for seq, event in enumerate(ready, 1)]
    log.append([(None, entries)]).result(WAIT)
    assert catalog.native_ids("one") == ["n0", "n1", "n2"]
    assert catalog.get("one").native_id == "n1"


def test_open_requests_can_be_listed_by_another_process(
    path: Path, catalog: Catalog, log: EventLog
) -> None:
    catalog.create(row()).result(WAIT)
    asked = [
        PermissionRequested(request_id="r1", tool="shell", title="rm"),
        QuestionAsked(request_id="r2", questions=(Question("Which?"),)),
        RequestAnswered(request_id="r1", answer=Answer("deny"), by="person"),
    ]
    log.append([(None, [entry(seq, event) for seq, event in enumerate(asked, 1)])]).result(WAIT)
    other = Database.open(path)
    assert Catalog(other).open_requests() == [OpenRequest("session", "r2", 2, AT)]
    assert Catalog(other).open_requests("nobody") == []
    other.close()


def test_sessions_that_have_an_owner_are_listed(catalog: Catalog) -> None:
    for name in ("one", "two"):
        catalog.create(row(name)).result(WAIT)
    catalog.update("two", owner_socket="/run/two.sock", owner_pid=7).result(WAIT)
    assert catalog.owned() == ["two"]
    catalog.update("two", owner_socket=None, owner_pid=None).result(WAIT)
    assert catalog.owned() == []


def test_a_fork_has_the_same_past_and_its_own_future(catalog: Catalog, log: EventLog) -> None:
    catalog.create(row("one", settings={"a": 1}, owner_pid=1)).result(WAIT)
    log.append([(line(1), [entry(1, TurnStarted(origin="prompt", prompt="go"), session="one")])])
    log.append(received(2, 9, session="one"))
    usage = UsageReported(input_tokens=9, cost_usd=1.0)
    log.append([(line(10), [entry(10, usage, session="one")])])
    end = [(line(11), [entry(11, TurnEnded(reason="completed"), session="one")])]
    log.append(end).result(WAIT)

    middle = catalog.fork("one", "two", created_at=LATER, up_to_seq=5).result(WAIT)
    assert middle == row(
        "two", created_at=LATER, updated_at=LATER, forked_from="one", settings={"a": 1},
        prompt="go", status="running", entries=5, turns=1, open_turn=1,
    )  # fmt: skip
    whole = catalog.fork("one", "three", created_at=LATER).result(WAIT)
    assert (whole.entries, whole.open_turn, whole.cost_usd) == (11, None, None)

    log.append(received(6, 7, session="two", turn=2)).result(WAIT)
    past = [msgspec.structs.replace(found, session="two") for found in log.since("one")[:5]]
    future = [chunk(6, session="two", turn=2), chunk(7, session="two", turn=2)]
    assert log.since("two") == [*past, *future]
    assert [log.raw("two", seq) for seq in range(1, 8)] == [line(seq) for seq in range(1, 8)]
    assert log.last_seq("one") == 11


def test_a_fork_needs_a_session_and_a_free_id(catalog: Catalog) -> None:
    catalog.create(row()).result(WAIT)
    with pytest.raises(SessionNotFound):
        catalog.fork("nobody", "two", created_at=LATER).result(WAIT)
    with pytest.raises(SessionError, match="already"):
        catalog.fork("session", "session", created_at=LATER).result(WAIT)


def test_deleting_a_session_leaves_nothing_of_it(
    path: Path, database: Database, catalog: Catalog, log: EventLog
) -> None:
    for name in ("gone", "kept"):
        catalog.create(row(name)).result(WAIT)
        begin = [
            TurnStarted(origin="prompt", prompt=f"tell {name}-secret"),
            AgentReady(native_id=f"native-{name}"),
            PermissionRequested(request_id="r", tool="shell", title="rm"),
        ]
        entries = [entry(seq, event, session=name) for seq, event in enumerate(begin, 1)]
        log.append([(name.encode() * 10, entries)]).result(WAIT)
        Search(database).index(name, 1, [("user", f"tell {name}-secret")]).result(WAIT)
        AttachmentStore(database).put(name, f"{name}-bytes".encode()).result(WAIT)
    catalog.delete("gone").result(WAIT)
    with pytest.raises(SessionNotFound):
        catalog.delete("gone").result(WAIT)
    assert [found.id for found in catalog.list()] == ["kept"]
    assert log.since("gone") == []
    assert log.last_seq("kept") == 3
    tables = ("entries", "native_ids", "requests", "raws", "messages", "attachment_uses")
    assert [database.query(f"SELECT count(*) FROM {name}")[0][0] for name in tables] == [
        3, 1, 1, 1, 1, 1
    ]  # fmt: skip
    assert Search(database).search("gone") == []
    database.close()
    content = path.read_bytes()
    assert b"gone-secret" not in content
    assert b"gone-bytes" not in content
    assert b"kept-secret" in content


def test_a_long_session_is_deleted_in_slices_that_leave_a_complete_beginning(
    catalog: Catalog, log: EventLog
) -> None:
    catalog.create(row()).result(WAIT)
    catalog.create(row("other")).result(WAIT)
    count = 2 * DELETE_SLICE + 10
    log.append(received(1, count)).result(WAIT)
    order: list[str] = []
    done = catalog.delete("session")
    between = log.append(received(1, 1, session="other"))
    done.add_done_callback(lambda _: order.append("deleted"))
    between.add_done_callback(lambda _: order.append("other's entry"))
    lengths = []
    while not done.done():
        seen = log.since("session", limit=count)  # raises where a number is missing
        lengths.append(len(seen))
    done.result(WAIT)
    assert order == ["other's entry", "deleted"]
    assert lengths == sorted(lengths, reverse=True)
    assert [found.id for found in catalog.list()] == ["other"]


def test_old_sessions_without_an_owner_have_expired(catalog: Catalog) -> None:
    catalog.create(row("old", created_at="2020-01-01T00:00:00Z")).result(WAIT)
    catalog.create(row("owned", created_at="2020-01-01T00:00:00Z", owner_pid=1)).result(WAIT)
    catalog.create(row("new", created_at="2026-01-01T00:00:00Z")).result(WAIT)
    assert catalog.expired("2025-01-01T00:00:00Z") == ["old"]
