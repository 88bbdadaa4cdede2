"""Decoding: no line raises or is lost, and the events of each can be stored and read."""

from __future__ import annotations

import json

import pytest

from tests.agents.plain import PlainWire
from tillerman.agents.stdio.line_decoder import (
    MAX_DEPTH,
    LineDecoder,
    OverlongLine,
    PartialLine,
    deeper_than,
)
from tillerman.core.agent import DecodedLine
from tillerman.core.events import (
    Event,
    MessageChunk,
    ToolStarted,
    TurnEnded,
    Unrecognized,
    decode_event,
    encode,
)
from tillerman.core.session_options import session_spec
from tillerman.testing.broken_streams import NONSENSE
from tillerman.testing.recording_player import SPEC

DONE = TurnEnded(reason="completed")


def received(*lines: bytes) -> list[DecodedLine]:
    found, _ = LineDecoder(PlainWire(SPEC), 1000).decode_batch(lines)
    return found


@pytest.mark.parametrize("line", NONSENSE, ids=lambda line: repr(line[:24]))
def test_an_invalid_line_is_stored_and_the_next_is_decoded(line: bytes) -> None:
    strange, next_ = received(line, b'{"end": "completed"}')
    assert next_ == DecodedLine(b'{"end": "completed"}', [DONE])
    (event,) = strange.events
    assert isinstance(event, Unrecognized)
    assert strange.raw == line
    assert event.raw == line.decode("utf-8", "replace")
    assert event.why
    assert decode_event(encode(event)) == event


def test_a_wire_that_raises_ends_nothing() -> None:
    assert received(b'{"raise": "oh"}', b'{"end": "completed"}') == [
        DecodedLine(
            b'{"raise": "oh"}',
            [Unrecognized(raw='{"raise": "oh"}', why="RuntimeError in the wire: oh")],
        ),
        DecodedLine(b'{"end": "completed"}', [DONE]),
    ]


def test_blank_lines_are_ignored() -> None:
    assert received(b" ", b"\r", b"\t\r", PartialLine(b"  ")) == []


def test_a_line_may_end_with_crlf() -> None:
    assert received(b'{"say": "a"}\r') == [
        DecodedLine(b'{"say": "a"}\r', [MessageChunk(message_id="m", text="a")])
    ]


def test_an_overlong_line_of_blanks_is_not_ignored() -> None:
    assert received(OverlongLine(b"    ", 5000, "abc", "1")) == [
        DecodedLine(
            b"    ",
            [
                Unrecognized(
                    raw="    ",
                    why="longer than 1000 bytes",
                    length=5000,
                    sha256="abc",
                    spill="1",
                )
            ],
        )
    ]


@pytest.mark.parametrize("tail", [b'{"say": "a', b'{"say', b'{"say": "a"', b"{", b'{"say": "}'])
def test_a_truncated_line_is_never_taken_for_a_whole_one(tail: bytes) -> None:
    ((raw, (event,), _),) = received(PartialLine(tail))
    assert raw == tail
    assert isinstance(event, Unrecognized)


class Deep(PlainWire):
    """Returns every line that it decodes as a tool's input."""

    def decode(self, line: bytes) -> list[Event]:  # type: ignore[override]
        input = json.loads(line)
        return [ToolStarted(call_id="c", tool="Bash", name="b", title="t", input=input)]


@pytest.mark.parametrize("depth", [10, MAX_DEPTH, MAX_DEPTH + 1, 400, 900, 950, 990, 5000])
def test_decoded_lines_can_be_stored_with_less_stack_left(depth: int) -> None:
    """A reader of the log may be 500 calls deeper in the stack than the decoder of the line."""
    line = b'{"a":' * depth + b"1" + b"}" * depth
    receiving = LineDecoder(Deep(session_spec(cwd=SPEC.cwd)), 1_000_000)
    (((_, (event,), _),), _) = receiving.decode_batch([line])
    assert isinstance(event, ToolStarted if depth <= MAX_DEPTH else Unrecognized)

    def deeper(calls: int) -> Event:
        return deeper(calls - 1) if calls else decode_event(encode(event))

    assert deeper(500) == event


@pytest.mark.parametrize(
    ("raw", "deep"),
    [
        (b"[" * 101 + b"]" * 101, True),
        (b"[" * 100 + b"]" * 100, False),
        (b'{"a":' * 101, True),
        (b"[]" * 1000, False),
        (b'"' + b"[" * 1000 + b'"', False),
        (b'"\\"' + b"[" * 1000 + b'"', False),
        (b'"\\\\"' + b"[" * 101, True),
        (b'{"' + b"{" * 500 + b'": ' + b"[" * 99, False),
        (b'{"' + b"{" * 500 + b'": ' + b"[" * 100, True),
        (b"[" * 60 + b"]" * 60 + b"[" * 60 + b"]" * 60, False),
        (b"[],\n" * 50_000 + b"[" * 101, True),
    ],
)
def test_depth_is_counted_outside_of_strings(raw: bytes, deep: bool) -> None:
    assert deeper_than(100, raw) is deep
