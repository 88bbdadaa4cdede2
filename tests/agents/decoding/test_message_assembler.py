"""The message assembler: a block that is streamed and repeated is emitted once."""

from __future__ import annotations

from tillerman.agents.decoding.message_assembler import MOST_OPEN, MessageAssembler
from tillerman.core.events import MessageChunk, MessageWithdrawn, ThoughtChunk


def test_a_whole_block_adds_what_was_not_streamed() -> None:
    messages = MessageAssembler()
    assert messages.add("b1", "Hel") == (MessageChunk(message_id="b1", text="Hel"),)
    assert messages.add("b1", "") == ()
    assert list(messages.complete("b1", "Hello")) == [MessageChunk(message_id="b1", text="lo")]
    assert messages.open == {}


def test_a_whole_block_that_was_streamed_completely_adds_nothing() -> None:
    messages = MessageAssembler()
    messages.add("b1", "Hello", thought=True, parent="c1")
    assert list(messages.complete("b1", "Hello", thought=True, parent="c1")) == []


def test_a_block_that_was_not_streamed_is_emitted_whole() -> None:
    whole = MessageAssembler().complete("b1", "Hello", thought=True, parent="c1")
    assert list(whole) == [ThoughtChunk(message_id="b1", text="Hello", parent="c1")]


def test_chunks_that_the_whole_block_does_not_begin_with_are_withdrawn() -> None:
    messages = MessageAssembler()
    messages.add("b1", "Hel")
    assert list(messages.complete("b1", "Good day")) == [
        MessageWithdrawn(message_id="b1"),
        MessageChunk(message_id="b1:whole", text="Good day"),
    ]


def test_an_empty_whole_block_keeps_its_chunks() -> None:
    messages = MessageAssembler()
    messages.add("b1", "Hel")
    assert list(messages.complete("b1", "")) == []


def test_the_number_of_open_blocks_is_bounded() -> None:
    messages = MessageAssembler()
    for number in range(MOST_OPEN + 5):
        messages.add(f"b{number}", "x")
    assert len(messages.open) == MOST_OPEN
    assert "b0" not in messages.open
