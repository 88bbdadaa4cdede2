"""A page that applies frames shows what a page that is opened now shows."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from tests.surfaces.page.logs import generated_log, long_session
from tests.surfaces.page.page_tree import Page
from tillerman.core.events import Entry, MessageChunk, TurnStarted
from tillerman.surfaces.page.conversation import PageConversation
from tillerman.surfaces.page.document import first_turn, turns_html
from tillerman.surfaces.page.patches import Add, conversation_frame


def opened(conversation: PageConversation) -> Page:
    return Page(turns_html(conversation, 0))


@pytest.mark.parametrize("seed", range(60))
def test_frames_lead_to_the_page_as_it_is_opened_later(seed: int) -> None:
    chance = random.Random(seed)
    conversation = PageConversation()
    pages: list[tuple[Page, int]] = [(Page(), 0)]
    entries = generated_log(seed, 120)
    while entries:
        count = chance.randint(1, 8)
        conversation.add(entries[:count])
        del entries[:count]
        conversation.refresh()
        for at, (page, seen) in enumerate(pages):
            if chance.random() < 0.6:  # another one is away for a while
                frame = conversation_frame(conversation, seen)
                assert page.apply(frame)
                assert page.html() == opened(conversation).html()
                pages[at] = page, frame.seq
        if chance.random() < 0.1:
            pages.append((opened(conversation), conversation.seq))
    for page, seen in pages:
        assert page.apply(conversation_frame(conversation, seen))
        assert page.html() == opened(conversation).html()


@pytest.mark.parametrize("seed", range(20))
def test_reading_in_pieces_shows_the_same_letters_as_at_once(seed: int) -> None:
    """A message that goes on after another block is parsed in two parts: markup may differ."""
    entries = generated_log(seed, 100)
    at_once, in_pieces = PageConversation(), PageConversation()
    at_once.add(entries)
    at_once.refresh()
    for entry in entries:
        in_pieces.add([entry])
        in_pieces.refresh()
    texts = [opened(one).root.text for one in (at_once, in_pieces)]
    assert Counter(filter(str.isalnum, texts[0])) == Counter(filter(str.isalnum, texts[1]))


def entries_of(*events: object) -> list[Entry]:
    return [
        Entry(session="s", seq=seq, turn=1, at="2026-01-01T00:00:00Z", event=event)  # type: ignore[arg-type]
        for seq, event in enumerate(events, 1)
    ]


def test_a_long_unfinished_block_grows_by_its_new_text_only() -> None:
    chunks = [MessageChunk(message_id="m", text="x" * 3_000) for _ in range(5)]
    log = entries_of(TurnStarted(origin="prompt", prompt="go"), *chunks)
    conversation = PageConversation()
    conversation.add(log[:4])
    conversation.refresh()
    page = opened(conversation)
    conversation.add(log[4:])
    conversation.refresh()
    frame = conversation_frame(conversation, 4)
    assert [len(op.text) for op in frame.ops if isinstance(op, Add)] == [6_000]
    assert page.apply(frame)
    assert page.html() == opened(conversation).html()


def test_a_page_without_the_expected_text_asks_for_the_block() -> None:
    chunks = [MessageChunk(message_id="m", text="x" * 5_000) for _ in range(3)]
    log = entries_of(TurnStarted(origin="prompt", prompt="go"), *chunks)
    conversation = PageConversation()
    conversation.add(log[:3])
    conversation.refresh()
    page = opened(conversation)
    conversation.add(log[3:])
    conversation.refresh()
    frame = conversation_frame(conversation, 3)
    assert page.apply(frame)
    assert not page.apply(frame)  # a second time: the text is longer already


def test_a_long_session_opens_with_its_end() -> None:
    entries = long_session(100_000)
    begun = time.process_time()
    conversation = PageConversation()
    conversation.add(entries)
    conversation.refresh()
    first = first_turn(conversation)
    html = turns_html(conversation, first)
    spent = time.process_time() - begun
    assert "prompt 2000" in html
    assert "prompt 1000" not in html
    assert len(html) < 300_000
    assert spent < 10  # to render all of it would take minutes


def test_a_change_of_a_long_session_costs_what_changed() -> None:
    conversation = PageConversation()
    entries = long_session(40_000)
    conversation.add(entries[:39_000])
    conversation.refresh()
    begun = time.process_time()
    for entry in entries[39_000:]:
        conversation.add([entry])
        conversation.refresh()
        conversation_frame(conversation, entry.seq - 1)
    assert time.process_time() - begun < 10


def test_entries_that_are_not_shown_yet_do_not_count_as_shown() -> None:
    log = entries_of(
        TurnStarted(origin="prompt", prompt="go"), MessageChunk(message_id="m", text="Hello")
    )
    conversation = PageConversation()
    conversation.add(log[:1])
    conversation.refresh()
    conversation.add(log[1:])
    page, seen = opened(conversation), conversation.seq
    conversation.refresh()
    assert page.apply(conversation_frame(conversation, seen))
    assert page.html() == opened(conversation).html()
