"""Words are found in whole messages, for any query."""

from __future__ import annotations

import random

import pytest

from tests.store.store_samples import WAIT, row
from tillerman.store.catalog import Catalog
from tillerman.store.search import MARK_BEGIN, MARK_END, Hit, Search


@pytest.fixture(autouse=True)
def sessions(catalog: Catalog) -> None:
    for name in ("one", "two"):
        catalog.create(row(name)).result(WAIT)


def test_a_word_is_found_in_the_message_that_contains_it(search: Search) -> None:
    search.index("one", 1, [("user", "Where is the bridge?"), ("agent", "Over the river.")])
    search.index("two", 4, [("agent", "No bridges here")]).result(WAIT)
    marked = f"Where is the {MARK_BEGIN}bridge{MARK_END}?"
    assert search.search("bridge", session="one") == [Hit("one", 1, "user", marked)]
    assert {(hit.session, hit.turn) for hit in search.search("bridge")} == {("one", 1), ("two", 4)}
    assert search.search("riv", limit=1)[0].role == "agent"


def test_all_words_must_be_there_and_quoted_ones_together(search: Search) -> None:
    search.index("one", 1, [("agent", "the old stone bridge")])
    search.index("two", 1, [("agent", "a bridge of old wood, not of stone")]).result(WAIT)

    def sessions(query: str) -> set[str]:
        return {hit.session for hit in search.search(query)}

    assert sessions("old stone") == {"one", "two"}
    assert sessions('"old stone"') == {"one"}
    assert sessions("stone steel") == set()
    assert sessions("BRIDGE") == {"one", "two"}


def test_indexing_a_turn_again_replaces_its_text(search: Search) -> None:
    search.index("one", 1, [("agent", "first draft")]).result(WAIT)
    search.index("one", 2, [("agent", "second turn")]).result(WAIT)
    search.index("one", 1, [("agent", "final words"), ("user", "")]).result(WAIT)
    assert search.search("draft") == []
    assert [hit.turn for hit in search.search("final")] == [1]
    assert [hit.turn for hit in search.search("second")] == [2]


def test_accents_and_broken_text_do_not_matter(search: Search) -> None:
    search.index("one", 1, [("agent", "Der Brückenbauer \ud800 kam")]).result(WAIT)
    assert [hit.session for hit in search.search("bruckenbauer kam")] == ["one"]


QUERIES = [
    "", " ", '"', '""', '"""', "*", "a*", "AND", "OR NOT", "NEAR(", "NEAR(a b)", "(", ")", "a)",
    "text:", "text:a", "-a", "+a", "^a", "{a}", "a:b:c", "'", "a'b", "\\", "%", ";", "--",
    "\0", "a\0b", "\ud800", "💥", "a" * 10_000, '" OR 1=1', "col : val", "!!!", "..", "a.b/c-d_e",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_nothing_a_person_types_is_a_syntax_error(search: Search, query: str) -> None:
    search.index("one", 1, [("agent", "a b c d_e words")]).result(WAIT)
    assert isinstance(search.search(query), list)


def test_random_punctuation_is_no_syntax_error_either(search: Search) -> None:
    search.index("one", 1, [("agent", "a b c")]).result(WAIT)
    dice = random.Random(7)
    for _ in range(500):
        query = "".join(dice.choices("ab \"*()+-:^{}.,\\'ANDORNT\n\t", k=dice.randint(1, 12)))
        search.search(query)
