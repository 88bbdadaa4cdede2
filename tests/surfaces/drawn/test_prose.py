from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from bridle.surfaces.drawn.prose import TAIL_CAP, Prose

TEXT = "# Title\n\nOne *two*\nthree\n\n```py\na = 1\n\nb = 2\n```\n\n- x\n- y\n\n\nend"
BLOCKS = ["# Title", "One *two*\nthree", "```py\na = 1\n\nb = 2\n```", "- x\n- y", "end"]


def whole(chunks: list[str]) -> list[str]:
    prose = Prose()
    sealed = [block for chunk in chunks for block in prose.feed(chunk)]
    return sealed + prose.end()


def test_a_blank_line_seals_a_block_but_not_inside_a_fence() -> None:
    assert whole([TEXT]) == BLOCKS


@given(st.lists(st.integers(0, len(TEXT))))
def test_the_blocks_do_not_depend_on_where_the_stream_was_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    chunks = [TEXT[a:b] for a, b in pairwise(places)]
    assert whole(chunks) == BLOCKS


def test_the_tail_is_what_is_not_sealed_yet() -> None:
    prose = Prose()
    assert prose.feed("done\n\nfirst\nsecond\nthi") == ["done"]
    assert prose.tail(2) == "second\nthi"


def test_a_block_that_never_ends_is_let_go_in_parts() -> None:
    prose = Prose()
    sealed = [block for _ in range(100) for block in prose.feed("x" * 1_000 + "\n")]
    assert len("".join(sealed)) + len(prose.tail(10**6)) >= 100_000
    assert len(prose.tail(10**6)) <= TAIL_CAP + 1_001


def test_an_escape_sequence_cut_in_two_is_not_shown() -> None:
    assert whole(["red \x1b[3", "1mtext\x1b]0;title", " more\x07 end"]) == ["red text end"]
