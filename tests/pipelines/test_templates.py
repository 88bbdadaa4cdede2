"""Templates: names and nothing else, inserted once and as they are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tillerman.pipelines import templates
from tillerman.pipelines.templates import TemplateError


@given(st.text(), st.text())
def test_a_value_is_inserted_as_it_is_and_never_read_again(before: str, value: str) -> None:
    before = before.replace("{", "").removesuffix("\\")
    values = {"inputs.task": value + "{{ run.id }}"}
    assert (
        templates.render(before + "{{ inputs.task }}", values) == f"{before}{value}{{{{ run.id }}}}"
    )


@given(st.text().filter(lambda text: "{{" not in text))
def test_a_text_without_placeholders_stays_as_it_is(text: str) -> None:
    assert templates.render(text, {}) == text
    assert templates.render_command(text, {}) == text


def test_two_braces_are_written_with_a_backslash() -> None:
    assert templates.render("\\{{ a }} {{ run.id }}", {"run.id": "7"}) == "{{ a }} 7"


@given(st.text(max_size=30))
def test_any_text_between_braces_is_a_name_or_an_error(text: str) -> None:
    try:
        found = templates.names("{{" + text + "}}")
    except TemplateError as error:
        assert error.hint
    else:
        assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-") for name in found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ inputs.files }}", ("a b", "c")),
        ("{{ steps.x.output }}", ("one", "two")),
        ("a\n\n b ", ("a", "b")),
    ],
)
def test_a_map_goes_over_entries_of_a_list_or_lines_of_a_text(
    text: str, expected: tuple[str, ...]
) -> None:
    values = {"inputs.files": ("a b", "c"), "steps.x.output": "one\n\n two \n"}
    assert templates.render_list(text, values) == expected


def test_a_list_in_a_prompt_has_an_entry_on_each_line() -> None:
    assert templates.render("{{ item }}", {"item": ("a", "b")}) == "a\nb"
