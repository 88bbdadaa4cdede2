"""A session's title comes from the user's prompt, never from what was added to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tillerman.core.agent import File, Prompt
from tillerman.core.events import Entry, TurnStarted
from tillerman.core.program.answer_format import request_for
from tillerman.core.transcript.handoff_summary import account
from tillerman.core.transcript.session_titles import added_words, displayed_title, is_of_added_words

NOTES = File("notes.txt", "text/plain", b"The heron of Ulm\nsleeps at noon, and wakes at dusk.\n")
ASKED = Prompt("Mend the nest", (NOTES,))
EARLIER = account(
    [Entry(session="s", seq=1, turn=1, at="", event=TurnStarted(origin="prompt", prompt="Build"))]
).earlier()


@pytest.mark.parametrize(
    "title",
    [
        "The heron of Ulm sleeps at…",
        "the heron of ulm",
        '<file name="notes.txt"> The heron',
        "This conversation began earlier, and you do n...",
        "This conversation began",
        "You are taking over a task in this folder from another coding agent",
    ],
)
def test_a_title_taken_from_a_summary_or_a_file_is_detected(title: str) -> None:
    assert is_of_added_words(title, ASKED.text, added_words(ASKED, EARLIER))


@pytest.mark.parametrize("cut", [24, 40, 60, 90, 200])
def test_a_title_that_runs_into_the_request_for_a_schema_is_found_out(cut: int) -> None:
    sent = f"{ASKED.text} {request_for({'type': 'object'})}"
    assert is_of_added_words(f"{sent[:cut]}…", sent, "")
    assert not is_of_added_words(f"{ASKED.text[:cut]}…", sent, "")


@pytest.mark.parametrize("title", ["Mend the nest", "Mend the…", "Nest repair", "Ulm", ""])
def test_any_other_title_stays(title: str) -> None:
    assert not is_of_added_words(title, ASKED.text, added_words(ASKED, EARLIER))


@given(prompt=st.text(min_size=8, max_size=200), cut=st.integers(8, 60))
def test_the_beginning_of_the_prompt_is_a_title_whatever_else_was_attached(
    prompt: str, cut: int
) -> None:
    words = " ".join(f"Mend {prompt}".split())
    added = added_words(Prompt(words), f"{EARLIER}\n{words}")
    assert not is_of_added_words(words[:cut], words, added)


@given(cut=st.integers(8, 120))
def test_the_beginning_of_a_summary_is_no_title_wherever_it_is_cut(cut: int) -> None:
    assert is_of_added_words(EARLIER[:cut], "Mend the nest", added_words(Prompt(""), EARLIER))


@pytest.mark.parametrize(
    ("given", "agent", "prompt", "displayed"),
    [
        ("mine", "agent's", "first prompt", "mine"),
        ("", "agent's\n title", "first prompt", "agent's title"),
        (None, None, "first prompt", "first prompt"),
        (None, "", None, ""),
    ],
)
def test_the_title_of_the_user_precedes_that_of_the_agent_and_the_prompt(
    given: str | None, agent: str | None, prompt: str | None, displayed: str
) -> None:
    assert displayed_title(given, agent, prompt) == displayed
