"""Entries are stored once, in order, and read back unchanged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import msgspec
import pytest

from tests.store.store_samples import AT, WAIT, chunk, entry, line, received, row
from tillerman.core import events
from tillerman.core.errors import SessionNotFound, StoreError
from tillerman.core.events import (
    Entry,
    Event,
    MessageChunk,
    Notice,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Unrecognized,
    UsageReported,
)
from tillerman.core.failure import Failure
from tillerman.store.catalog import Catalog
from tillerman.store.database import Database
from tillerman.store.event_log import EventLog


@pytest.fixture(autouse=True)
def session(catalog: Catalog) -> None:
    catalog.create(row()).result(WAIT)


def stored(log: EventLog, event: Event) -> Event:
    log.append([(None, [entry(1, event)])]).result(WAIT)
    return log.since("session")[0].event


def test_entries_come_back_in_order_as_they_were(log: EventLog) -> None:
    log.append(received(1, 120)).result(WAIT)
    log.append(received(121, 700)).result(WAIT)
    assert log.since("session", limit=1000) == [chunk(seq) for seq in range(1, 701)]
    assert log.since("session", 690, limit=4) == [chunk(seq) for seq in range(691, 695)]
    assert log.since("session", 700) == []
    assert log.last_seq("session") == 700


def test_an_event_is_stored_as_its_json(log: EventLog, database: Database) -> None:
    event = TurnEnded(reason="failed", failure=Failure(kind="billing", message="no more"))
    stored(log, event)
    ((retained,),) = database.query("SELECT event FROM entries")
    assert retained == events.encode(event)


def test_entries_of_a_few_types_are_found_whether_short_or_long(log: EventLog) -> None:
    reported: list[Event] = [
        Notice(level="info", kind="retry", text="short"),
        MessageChunk(message_id="m", text='{"type":"notice"'),
        MessageChunk(message_id="m", text="x" * 10_000),
        Notice(level="info", kind="retry", text="y" * 10_000),
        TurnEnded(reason="completed"),
    ]
    entries = [entry(seq, event) for seq, event in enumerate(reported, 1)]
    log.append([(None, entries)]).result(WAIT)
    assert list(log.of_types("session", ("notice",))) == [entries[0], entries[3]]
    assert list(log.of_types("session", ("turn_ended", "notice")))[-1] == entries[4]
    assert list(log.of_types("nobody", ("notice",))) == []


def test_several_entries_share_the_line_that_caused_them(log: EventLog) -> None:
    lines = [
        (b"first", [chunk(1), chunk(2)]),
        (None, [chunk(3)]),
        (b"third", [chunk(4)]),
        (b"nothing came of this", []),
    ]
    log.append(lines).result(WAIT)
    log.append([(None, [chunk(5)])]).result(WAIT)
    assert [log.raw("session", seq) for seq in range(1, 7)] == [
        b"first", b"first", None, b"third", None, None
    ]  # fmt: skip


def test_raw_lines_of_any_bytes_and_length_are_stored(log: EventLog) -> None:
    lines = [b"\xff\xfe\x00\x80", b"", b"x" * 1_000_000, bytes(range(256)) * 2000, b"last"]
    log.append([(raw, [chunk(seq)]) for seq, raw in enumerate(lines, 1)]).result(WAIT)
    assert [log.raw("session", seq) for seq in range(1, 6)] == lines


def test_repeating_an_append_does_nothing(log: EventLog, catalog: Catalog) -> None:
    first = [
        (line(1), [entry(1, TurnStarted(origin="prompt", prompt="go"))]),
        (line(2), [entry(2, UsageReported(input_tokens=5, cost_usd=0.25))]),
    ]
    log.append(first).result(WAIT)
    before = catalog.get("session")
    log.append(first).result(WAIT)
    assert catalog.get("session") == before
    assert log.last_seq("session") == 2


def test_repeating_the_tail_together_with_new_entries_adds_only_the_new(
    log: EventLog, catalog: Catalog
) -> None:
    usage = [(line(5), [entry(5, UsageReported(output_tokens=7))])]
    log.append([*received(1, 4), *usage]).result(WAIT)
    log.append([*received(3, 4), *usage, *received(6, 9)]).result(WAIT)
    assert [found.seq for found in log.since("session")] == list(range(1, 10))
    assert [log.raw("session", seq) for seq in range(1, 10)] == [line(n) for n in range(1, 10)]
    assert catalog.get("session").output_tokens == 7


def test_chunks_are_counted_in_the_row_of_their_session(log: EventLog, catalog: Catalog) -> None:
    catalog.create(row("newer")).result(WAIT)
    log.append(received(1, 3)).result(WAIT)
    later = "2026-01-01T00:00:09.000Z"
    words = [msgspec.structs.replace(chunk(seq, turn=2), at=later) for seq in range(4, 50)]
    log.write(words).result(WAIT)
    found = catalog.get("session")
    assert (found.entries, found.turns, found.updated_at) == (49, 2, later)
    assert [one.id for one in catalog.list()] == ["session", "newer"]
    log.write(words[-3:]).result(WAIT)  # once more
    assert catalog.get("session") == found


def test_chunks_for_an_unknown_session_are_refused(log: EventLog) -> None:
    with pytest.raises(SessionNotFound):
        log.write([chunk(1, session="nobody")]).result(WAIT)


def test_another_entry_under_a_used_number_is_refused(log: EventLog) -> None:
    log.append(received(1, 3)).result(WAIT)
    other = entry(3, Notice(level="info", kind="session", text="another owner"))
    with pytest.raises(StoreError, match="different entries from number 3"):
        log.append([(None, [other])]).result(WAIT)
    assert log.since("session") == [chunk(1), chunk(2), chunk(3)]


def test_a_gap_is_refused(log: EventLog) -> None:
    log.append(received(1, 3)).result(WAIT)
    with pytest.raises(StoreError, match="has 3 entries; number 5 would leave a gap"):
        log.append(received(5, 6)).result(WAIT)
    with pytest.raises(StoreError, match="out of order"):
        log.append([*received(4, 4), *received(6, 6)]).result(WAIT)
    assert log.last_seq("session") == 3


def test_one_append_is_of_one_session_that_exists(log: EventLog) -> None:
    with pytest.raises(SessionNotFound):
        log.append(received(1, 1, session="nobody")).result(WAIT)
    with pytest.raises(StoreError, match="2 sessions"):
        log.append([*received(1, 1), *received(2, 2, session="other")]).result(WAIT)
    log.append([]).result(WAIT)
    assert log.last_seq("session") == log.last_seq("nobody") == 0


@pytest.mark.parametrize(
    ("event", "kept"),
    [
        (
            MessageChunk(message_id="m", text="cut \ud83d here"),
            MessageChunk(message_id="m", text="cut \ufffd here"),
        ),
        (
            MessageChunk(message_id="m", text="\ud83d\ude00"),
            MessageChunk(message_id="m", text="😀"),
        ),
        (
            TurnStarted(origin="prompt", prompt="\udfff" * 300),
            TurnStarted(origin="prompt", prompt="\ufffd" * 300),
        ),
        (
            TurnEnded(reason="completed", result={"\ud800": ["\ud800", {"deep": "\udc00"}]}),
            TurnEnded(reason="completed", result={"\ufffd": ["\ufffd", {"deep": "\ufffd"}]}),
        ),
        (
            TurnEnded(reason="completed", result=[2**64, -(2**80), float("nan"), 1e999]),
            TurnEnded(reason="completed", result=[2**64, -(2**80), None, None]),
        ),
        (UsageReported(input_tokens=2**70), UsageReported(input_tokens=2**70)),
        (
            ToolStarted(call_id="c", tool="shell", name="Bash", title="NUL \0 and BOM \ufeff"),
            ToolStarted(call_id="c", tool="shell", name="Bash", title="NUL \0 and BOM \ufeff"),
        ),
    ],
)
def test_values_that_break_naive_code_are_stored(
    log: EventLog, catalog: Catalog, event: Event, kept: Event
) -> None:
    assert stored(log, event) == kept
    assert catalog.get("session").entries == 1


def test_an_event_of_another_version_is_stored_and_read_as_unrecognized(
    log: EventLog, database: Database
) -> None:
    log.append(received(1, 2)).result(WAIT)
    future = b'{"type":"agent_dreamed","of":"sheep"}'
    database.write(
        lambda connection: connection.execute(
            "UPDATE entries SET event = ? WHERE seq = 2", (future,)
        )
    ).result(WAIT)
    seen = log.since("session")[1].event
    assert isinstance(seen, Unrecognized)
    assert seen.raw.encode() == future


def test_an_event_that_cannot_be_encoded_fails_alone(log: EventLog) -> None:
    bad = log.append([(None, [entry(1, TurnEnded(reason="completed", result=object()))])])
    good = log.append(received(1, 2))
    assert isinstance(bad.exception(WAIT), TypeError)
    good.result(WAIT)
    assert log.last_seq("session") == 2


async def test_a_cancelled_waiter_leaves_no_gap_in_the_log(log: EventLog) -> None:
    waiter = asyncio.ensure_future(asyncio.wrap_future(log.append(received(1, 5))))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait_for(asyncio.wrap_future(log.append(received(6, 7))), WAIT)
    assert log.last_seq("session") == 7


def test_a_reader_in_another_process_sees_what_was_acknowledged(path: Path, log: EventLog) -> None:
    log.append(received(1, 3)).result(WAIT)
    other = Database.open(path)
    assert EventLog(other).since("session") == [chunk(1), chunk(2), chunk(3)]
    other.close()


def test_history_takes_less_room_than_its_bytes(
    log: EventLog, path: Path, database: Database
) -> None:
    raw = msgspec.json.encode({"type": "assistant", "text": "many words, often the same " * 20})
    log.append([(raw, [chunk(seq)]) for seq in range(1, 2001)]).result(WAIT)
    database.close()
    assert path.stat().st_size < len(raw) * 2000


def test_timestamps_are_stored_as_given(log: EventLog, database: Database) -> None:
    stamps = [AT, "1999-12-31T23:59:59Z", "2126-01-01T00:00:00.000001Z"]
    entries = [
        Entry(session="session", seq=seq, turn=1, at=at, event=chunk(seq).event)
        for seq, at in enumerate(stamps, 1)
    ]
    log.append([(None, entries)]).result(WAIT)
    assert log.since("session") == entries
    assert isinstance(database.read(), apsw.Connection)
