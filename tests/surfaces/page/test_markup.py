"""Text of agents and users is text on the page, whatever it contains; and none of it is lost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.surfaces.page.logs import HOSTILE, generated_log, hostile
from tests.surfaces.page.page_tree import Element, parsed
from tests.surfaces.rendering.answers import answer, expected, letters, visible
from tillerman.core.events import Choice, PermissionRequested, Question, QuestionAsked
from tillerman.surfaces.page.conversation import PageConversation
from tillerman.surfaces.page.document import turns_html
from tillerman.surfaces.page.html_text import web_host
from tillerman.surfaces.page.markdown_html import markdown_html
from tillerman.surfaces.page.request_html import PolicyReading, ShownRequest, dock_html
from tillerman.surfaces.page.session_list_html import RailEntry, rail_html

ELEMENTS = frozenset(
    """article a b bdi blockquote br button code dd del details div dl dt em fieldset footer form h1
    h2 h3 h4 h5 h6 header hr i input ins kbd label legend li mark meter ol p pre progress q s
    section span strong summary svg table tbody td textarea th thead time tr ul use root
    nav""".split()  # noqa: SIM905
)
ATTRIBUTES = frozenset(
    """action aria-current aria-describedby aria-hidden aria-keyshortcuts aria-label aria-labelledby
    autocomplete checked class data-armed data-change data-copy data-n data-reason data-request
    data-since data-step data-step-to datetime for high href id low max method min name open optimum
    placeholder rel role rows tabindex target title type value hidden""".split()  # noqa: SIM905
)
NO_TEXT = frozenset({"id", "class", "name", "type", "data-n", "role", "rel", "target", "method"})


def check(html: str) -> Element:
    root = parsed(html)
    for one in root.walk():
        assert one.name in ELEMENTS, f"<{one.name}>"
        for name, value in one.attributes.items():
            assert name in ATTRIBUTES, f"{name} of <{one.name}>"
            if name in NO_TEXT and not (name == "name" and one.name == "input"):
                assert not any(char in value for char in "<>'\u202e\x1b"), (name, value)
        if one.name == "a":
            href = one.attributes["href"]
            assert href.startswith(("#", "/", "?", "http://", "https://")), href
            assert not href.startswith("//"), href
            if href.startswith("http"):
                assert one.attributes["rel"] == "noopener noreferrer"
    return root


@pytest.mark.parametrize("seed", range(60))
def test_no_text_becomes_markup(seed: int) -> None:
    conversation = PageConversation()
    conversation.add(generated_log(seed))
    conversation.refresh()
    check(turns_html(conversation, 0))


@pytest.mark.parametrize("seed", range(100))
def test_no_text_of_a_request_or_a_session_becomes_markup(seed: int) -> None:
    chance = random.Random(seed)
    text = hostile(chance).encode(errors="replace").decode()
    asked: list[PermissionRequested | QuestionAsked] = [
        PermissionRequested(
            request_id="r", tool="Bash", title=text, input={"command": text}, reason=text
        ),
        PermissionRequested(request_id="r", tool=text, title=text, input={text: text}),
        PermissionRequested(request_id="r", tool="ExitPlanMode", title="x", input={"plan": text}),
        PermissionRequested(
            request_id="r", tool="Edit", title=text,
            input={"file_path": text[:50], "old_string": text, "new_string": text + "x"},
        ),
        QuestionAsked(request_id="r", questions=(Question(text, text, (Choice(text, text),)),)),
    ]  # fmt: skip
    for one in asked:
        reading = PolicyReading("ask", text, text)
        check(dock_html(ShownRequest("s1", "mock", one, "2026-01-01", readings=(reading,)), "csrf"))
    entry = RailEntry("s1", text, text, text, text, asks=text)
    check(rail_html([entry], 1, None))


@pytest.mark.parametrize("seed", range(400))
def test_no_letter_of_an_answer_is_missing(seed: int) -> None:
    text = answer(seed)
    html = markdown_html(text)
    shown = letters(check(html).text)
    as_source = html.startswith('<p class="source">')
    whole = letters(visible(text)) if as_source else expected(text)
    missing = Counter(filter(str.isalnum, whole)) - Counter(filter(str.isalnum, shown))
    elsewhere = Counter(filter(str.isalnum, "".join(_attributes(html))))
    assert not missing - elsewhere, f"{text}\n-- is shown as --\n{shown}"


def _attributes(html: str) -> Iterator[str]:
    """Targets of links, and numbers of list items, which a browser draws."""
    for one in parsed(html).walk():
        yield one.attributes.get("href", "") if one.name == "a" else one.attributes.get("value", "")


def test_the_whole_command_is_shown_before_it_is_approved() -> None:
    for text in HOSTILE:
        command = f"echo start; {text}; echo end" * 30
        command = command.encode(errors="replace").decode()
        asked = PermissionRequested(
            request_id="r", tool="Bash", title="x", input={"command": command}
        )
        root = check(dock_html(ShownRequest("s1", "mock", asked, "2026-01-01"), "csrf"))
        shown = next(one.text for one in root.walk() if one.attributes.get("class") == "cmd")
        assert letters(visible(command)) in letters(shown)


@pytest.mark.parametrize(
    "url",
    ["javascript:x", "//evil.example", "http:evil", "http://a@b.example", "https://\u0435x.org",
     "data:text/html,x", "vbscript:x", " http://x", "http://x y", "http://[::1", "ftp://x", "",
     "java\nscript:x", "HTTP://", "\x01http://x.example"],
)  # fmt: skip
def test_only_plain_web_addresses_become_links(url: str) -> None:
    assert web_host(url) is None


def test_a_link_shows_its_host_unless_its_text_does() -> None:
    assert "(e.com)" in markdown_html("[click](https://e.com/x)")
    assert "(e.com)" not in markdown_html("<https://e.com/x>")
