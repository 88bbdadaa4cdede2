"""Chunks are logged in batches, with the same result as one by one."""

from __future__ import annotations

import json

import pytest

from tests.sessions.session_desk import Desk
from tillerman.core.agent import DecodedLine
from tillerman.core.events import Event, MessageChunk, Notice, ThoughtChunk, encode
from tillerman.sessions.log.sanitizer import ChunkBatch, EventSanitizer
from tillerman.sessions.log.size_limits import DiskBudget
from tillerman.supervision.secrets import Secrets

SECRET = "correct-horse-battery-staple"
CAP = 10_000


@pytest.fixture
def intake() -> EventSanitizer:
    def no_spill() -> None:
        raise AssertionError("nothing here is so long")

    return EventSanitizer(
        Secrets({"KEY": SECRET}),
        output_cap=1_000,
        budget=DiskBudget(CAP),
        spill=no_spill,  # type: ignore[arg-type]
    )


def chunk(text: str, message: str = "m", parent: str | None = None) -> MessageChunk:
    return MessageChunk(message_id=message, text=text, parent=parent)


def lines(*events: Event) -> list[DecodedLine]:
    return [DecodedLine(encode(event), [event]) for event in events]


def test_chunks_of_one_message_stay_together(intake: EventSanitizer) -> None:
    batch = lines(chunk("one "), chunk("two "), chunk("three "))
    taken = intake.sanitize_batch(batch)
    assert isinstance(taken, ChunkBatch)
    assert taken.lines == batch
    assert taken.whole == chunk("one two three ")


@pytest.mark.parametrize(
    "other",
    [
        chunk("another message ", "n"),
        chunk("a subagent's ", parent="call"),
        ThoughtChunk(message_id="m", text="a thought "),
        Notice(level="info", kind="session", text="no word"),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_chunk_of_another_message_is_searched_separately(
    intake: EventSanitizer, other: Event, place: int
) -> None:
    events: list[Event] = [chunk("one "), chunk("two ")]
    events.insert(place, other)
    taken = intake.sanitize_batch(lines(*events))
    assert not isinstance(taken, ChunkBatch)
    assert [event for received in taken for event in received.events] == events


def test_a_line_of_two_chunks_is_searched_too(intake: EventSanitizer) -> None:
    two = DecodedLine(b"{}", [chunk("one "), chunk("two ")])
    taken = intake.sanitize_batch([*lines(chunk("zero ")), two])
    assert not isinstance(taken, ChunkBatch)
    assert [received.events for received in taken] == [
        [chunk("zero ")],
        [chunk("one "), chunk("two ")],
    ]


def test_a_secret_over_many_chunks_is_found(intake: EventSanitizer) -> None:
    pieces = [chunk(SECRET[at : at + 3]) for at in range(0, len(SECRET), 3)]
    taken = intake.sanitize_batch(lines(chunk("it is "), *pieces, chunk(" so")))
    assert not isinstance(taken, ChunkBatch)
    received = list(taken)
    text = "".join(e.text for one in received for e in one.events if isinstance(e, MessageChunk))
    assert text == "it is [secret:KEY] so"
    assert SECRET[-3:] not in b"".join(one.raw or b"" for one in received[-3:-1]).decode()


def test_a_secret_over_two_batches_is_found(intake: EventSanitizer) -> None:
    first, second = SECRET[:9], SECRET[9:]
    events = [
        event
        for batch in (lines(chunk("it is "), chunk(first)), lines(chunk(second), chunk(" so")))
        for received in intake.sanitize(batch)
        for event in received.events
    ]
    assert "".join(e.text for e in events if isinstance(e, MessageChunk)) == "it is [secret:KEY] so"


def test_text_over_the_turns_cap_is_dropped_chunk_by_chunk(intake: EventSanitizer) -> None:
    """As many are stored as fit, wherever a batch ends."""

    def kept(size: int) -> int:
        intake.new_turn()
        batches = [lines(*[chunk("word " * 20)] * size) for _ in range(100 // size)]
        events = [
            e for batch in batches for received in intake.sanitize(batch) for e in received.events
        ]
        intake.flush()
        return sum(isinstance(event, MessageChunk) for event in events)

    assert 0 < kept(1) < 100
    assert kept(50) == kept(1)


async def test_every_chunk_is_an_entry_with_its_own_line(desk: Desk) -> None:
    """In order, under the turn, found by the search, whatever arrived together in the pipe."""
    words = " ".join(f"word{number}" for number in range(500))
    session = await desk.start()
    entries = [entry async for entry in session.run(json.dumps([{"say": words}]))]
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    pieces = [entry for entry in entries if isinstance(entry.event, MessageChunk)]
    assert len(pieces) > 100
    assert "".join(p.event.text for p in pieces).split() == words.split()  # type: ignore[union-attr]
    for piece in pieces:
        line = json.loads(desk.sessions.log.raw(session.id, piece.seq) or b"null")
        assert line["text"] == piece.event.text  # type: ignore[union-attr]
    assert {piece.turn for piece in pieces} == {1}
    found = desk.sessions.search.search("word499")
    assert sorted(one.role for one in found) == ["agent", "user"]
