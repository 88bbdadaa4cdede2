"""Every sentence of the pages is shown by a test, or promises nothing, and says why.

`claims/PAGE.toml` has each sentence and row of a page, with the tests that show it or one of
`NO_PROMISE`. A sentence that is new or changed, and a test that is gone, fail here.
"""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests import CHECKOUT
from tests.documents.sentences import name_of, sentences, written_pages

CLAIMS = Path(__file__).with_name("claims")
NO_PROMISE = {
    "definition": "what a word or a table means",
    "pointer": "where to read more",
    "advice": "what the reader should do",
    "limit": "what is not done, or not claimed",
    "outside": "about other programs",
    "commitment": "what later versions keep",
    "measured": "figures, by a benchmark in bench/",
}
# each program of it is a test, and its lines are counted: test_examples, test_side_by_side
PROGRAMS_ALONE = {"docs/claude-agent-sdk.md"}
PAGES = [page for page in written_pages() if name_of(page) not in PROGRAMS_ALONE]


def claims_of(page: Path) -> Path:
    return CLAIMS / f"{name_of(page).removesuffix('.md').replace('/', '.')}.toml"


@cache
def source(path: str) -> str:
    return (CHECKOUT / path).read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_sentence_has_its_tests_or_a_reason(page: Path) -> None:
    claims = tomllib.loads(claims_of(page).read_text("utf-8"))
    found = sentences(page)
    new = [f"{json.dumps(one, ensure_ascii=False)} = []" for one in found if one not in claims]
    gone = [one for one in claims if one not in found]
    assert (new, gone) == ([], []), f"correct {claims_of(page).relative_to(CHECKOUT)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_tests_of_every_sentence_exist(page: Path) -> None:
    for sentence, shown in tomllib.loads(claims_of(page).read_text("utf-8")).items():
        if isinstance(shown, str):
            assert shown in NO_PROMISE, sentence
            continue
        assert shown, sentence
        for test in shown:
            path, _, name = test.partition("::")
            assert f"def {name}(" in source(path), (sentence, test)


def test_every_file_of_claims_belongs_to_a_page() -> None:
    assert set(CLAIMS.iterdir()) == {claims_of(page) for page in PAGES}


def test_text_is_split_into_sentences_and_rows(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Heading\n\nOne `a.b`. **Two** [three](x.md);\nfour.\n\n- five: `x`\n- six?  Seven\n\n"
        "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n<!-- made: generated -->\nnot this\n<!-- end -->\n"
        "\n```sh\nnor this\n```\n\n![picture](a.svg)\n"
    )
    assert sentences(page) == [
        "One `a.b`.", "Two three; four.", "five: `x`", "six?", "Seven", "| a | b |", "| 1 | 2 |",
        "picture",
    ]  # fmt: skip
