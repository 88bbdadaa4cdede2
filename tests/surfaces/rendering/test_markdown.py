"""How Markdown looks on a terminal of 40 columns."""

from rich.console import Console

from tillerman.surfaces.rendering.markdown import Markdown


def shown(text: str, width: int = 40) -> list[str]:
    console = Console(width=width, highlight=False, markup=False, emoji=False, no_color=True)
    with console.capture() as capture:
        console.print(Markdown(text))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_html_is_text() -> None:
    message = "Use Vec<u8>, type <Tab> then <Enter>.\n<details>\nmore\n</details>\n<!-- note -->"
    assert shown(message) == message.splitlines()


def test_a_single_line_break_stays() -> None:
    assert shown("roses\nviolets  \nsugar") == ["roses", "violets", "sugar"]


def test_a_link_shows_its_target_once() -> None:
    assert shown('[docs](http://a.b/c "all") <http://d.e> <me@f.g>') == [
        'docs (http://a.b/c "all") http://d.e',
        "me@f.g",
    ]


def test_a_definition_of_a_link_or_a_footnote_is_text() -> None:
    message = "see [this][1] and that[^n]\n\n[1]: http://a.b\n\n[^n]: Note"
    assert shown(message) == message.splitlines()


def test_items_have_the_numbers_that_were_written() -> None:
    assert shown("3. c\n5. e\n   - nested\n5. e") == [" 3. c", " 5. e", "     • nested", " 5. e"]


def test_code_names_its_language_and_keeps_its_markup() -> None:
    assert shown("```py\n**a** = <b>\n```") == ["  py", "  **a** = <b>"]


def test_a_table_that_is_too_wide_wraps_its_cells() -> None:
    message = "| name | what |\n|-|-:|\n| a | " + "long " * 10 + "|"
    assert shown(message) == [
        "name                                what",
        "────  ──────────────────────────────────",
        "a     long long long long long long long",
        "                          long long long",
    ]


def test_a_table_with_a_cell_too_many_is_shown_as_it_was_written() -> None:
    message = "| a |\n|---|\n| 1 | lost |"
    assert shown(message) == message.splitlines()


def test_a_text_that_is_nested_too_deep_is_shown_as_it_was_written() -> None:
    message = ">" * 300 + " deep"
    assert "".join("".join(shown(message)).split()) == ">" * 300 + "deep"
    pictures = "![" * 2_000 + "x" + "](y)" * 2_000
    assert "".join(shown(pictures)).count("y") == 2_000


def test_what_is_indented_too_deep_for_the_screen_keeps_its_numbers() -> None:
    assert "".join(" ".join(shown("1. 2. 3. 4. 5. deep", 16)).split()) == "1.2.3.4.5.deep"
