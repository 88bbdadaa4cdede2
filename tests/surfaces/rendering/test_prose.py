import re
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tillerman.surfaces.rendering.markdown_stream import TAIL_CAP, Block, MarkdownStream

TEXT = "# Title\n\nOne *two*\nthree\n\n```py\na = 1\n\nb = 2\n```\n\n- x\n- y\n\n\nend"
BLOCKS = ["# Title", "One *two*\nthree", "```py\na = 1\n\nb = 2\n```", "- x\n- y", "end"]


def whole(chunks: list[str]) -> list[str]:
    prose = MarkdownStream()
    sealed = [block for chunk in chunks for block in prose.feed(chunk)]
    return [block.text for block in sealed + prose.end()]


def test_a_blank_line_seals_a_block_but_not_inside_a_fence() -> None:
    assert whole([TEXT]) == BLOCKS


@given(st.lists(st.integers(0, len(TEXT))))
def test_the_blocks_do_not_depend_on_where_the_stream_was_cut(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    chunks = [TEXT[a:b] for a, b in pairwise(places)]
    assert whole(chunks) == BLOCKS


def test_a_list_continues_after_a_blank_line() -> None:
    listed = "1. one\n\n   more\n\n2. two\n\n   ```\n   code\n\n   code\n   ```"
    assert whole([f"{listed}\n\nthen this\n\nand this"]) == [listed, "then this", "and this"]


def test_a_fence_ends_with_as_many_bars_as_it_began_with() -> None:
    fence = "````\n```\n\n**x**\n````"
    assert whole([f"{fence}\n\nend"]) == [fence, "end"]


def _words(page: str) -> list[str]:
    return re.sub(r"<[^>]*>", " ", page).split()


LINES = st.sampled_from([
    "", "", "- *a*", "  - *b*", "  *c*", "1. *d*", "   *e*", "*e*", "```", "  ```", "````", "~~~ x",
    "    *f*", "> *g*", "# h", "---", "* * *", "\t*i*", " *j*", "2) *k*", "> - l", "| *m* |",
    "| - |", "- ```", "``` a`b",
])  # fmt: skip


@settings(max_examples=1_000, deadline=None)
@given(st.lists(LINES, max_size=14).map("\n".join))
def test_blocks_laid_out_one_by_one_are_the_whole_laid_out_at_once(text: str) -> None:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable("reference")
    shown = "".join(map(markdown.render, whole([text])))
    assert _words(shown) == _words(markdown.render(text))


def test_the_tail_is_the_unsealed_text() -> None:
    prose = MarkdownStream()
    assert prose.feed("done\n\nfirst\nsecond\nthi") == [Block("done")]
    assert prose.tail(2) == "second\nthi"


def test_a_block_that_never_ends_is_released_in_parts_without_markup() -> None:
    prose = MarkdownStream()
    sealed = prose.feed("```\n")
    for _ in range(100):
        sealed += prose.feed("# " + "x" * 1_000 + "\n")
        assert len(prose.tail(10**6)) <= TAIL_CAP + 1_003
    sealed += prose.feed("```\n\n# end")
    sealed += prose.end()
    assert "\n".join(block.text for block in sealed).count("# x") == 100
    assert [block.verbatim for block in sealed] == [True, True, True, True, False]


def test_an_escape_sequence_cut_in_two_is_shown_and_not_interpreted() -> None:
    reported = whole(["red \x1b[3", "1mtext\x1b]0;title", " more\x07 end"])
    assert reported == ["red ␛[31mtext␛]0;title more␇ end"]
