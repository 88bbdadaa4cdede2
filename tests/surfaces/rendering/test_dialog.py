import io
import os
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from tillerman.core.events import (
    ALLOW,
    DENY,
    Answer,
    Choice,
    Option,
    PermissionRequested,
    Question,
    QuestionAsked,
)
from tillerman.surfaces.cli.views.keyboard import _keys
from tillerman.surfaces.rendering.dialogs import (
    ALL_EDITS,
    EDIT,
    Dialog,
    PermissionDialog,
    QuestionDialog,
)
from tillerman.surfaces.rendering.special_keys import (
    BACKSPACE,
    CLEAR,
    DOWN,
    ENTER,
    ESCAPE,
    PAGE_DOWN,
    UP,
)

REQUEST = PermissionRequested(
    request_id="r", tool="Bash", title="Bash `rm x`", input={"command": "rm x"}, reason="tidy up"
)


def typed(dialog: Dialog, *keys: str) -> Answer | str | None:
    reply = None
    for key in keys:
        assert reply is None
        reply = dialog.press(key)
    return reply


def drawn(dialog: Dialog, most: int = 1_000) -> str:
    file = io.StringIO()
    Console(file=file, width=80, markup=False).print(dialog.draw(lambda: most))
    return file.getvalue()


def lines(dialog: Dialog, most: int = 1_000) -> list[str]:
    """The lines without the frame."""
    return [line.strip("│ ") for line in drawn(dialog, most).splitlines()[1:-1]]


def request(tool: str, **input: object) -> PermissionRequested:
    return PermissionRequested(request_id="r", tool=tool, title=tool, input=input)


def test_one_key_answers() -> None:
    assert typed(PermissionDialog(REQUEST), "y") == Answer("allow")
    assert typed(PermissionDialog(REQUEST), "n") == Answer("deny")
    assert typed(PermissionDialog(REQUEST), "e") == EDIT
    for other in ("x", "a", ENTER, ESCAPE, "yes"):
        assert typed(PermissionDialog(REQUEST), other) is None


def test_a_refusal_can_have_a_reason() -> None:
    keys = ("r", "n", "x", BACKSPACE, "o", "pe", ENTER)
    assert typed(PermissionDialog(REQUEST), *keys) == Answer("deny", note="nope")
    assert typed(PermissionDialog(REQUEST), "r", "x", ESCAPE, "y") == Answer("allow")
    assert typed(PermissionDialog(REQUEST), "r", "abc", CLEAR, ENTER) == Answer("deny")


def test_each_option_that_is_offered_has_a_key() -> None:
    once, always = Option("once", "Once", "allow"), Option("ever", "For ever", "always")
    twice, never = Option("twice", "Twice", "allow"), Option("never", "Never", "deny")
    request = PermissionRequested(
        request_id="r", tool="Bash", title="x", options=(once, always, twice, never)
    )
    keys = {key: typed(PermissionDialog(request), key) for key in "y1n2"}
    assert keys == {
        "y": Answer("once"), "1": Answer("twice"), "n": Answer("never"), "2": None
    }  # fmt: skip
    assert "[1] Twice" in drawn(PermissionDialog(request))
    assert "For ever" not in drawn(PermissionDialog(request))


def test_options_an_agent_would_not_accept_are_not_offered() -> None:
    fixed = PermissionDialog(replace(REQUEST, changeable=False))
    assert "[e] edit" in drawn(PermissionDialog(REQUEST))
    assert "[e] edit" not in drawn(fixed)
    assert typed(fixed, "e") is None
    assert "does not accept changed input" in drawn(fixed)


def test_what_comes_back_from_the_editor_is_checked() -> None:
    dialog = PermissionDialog(REQUEST)
    assert dialog.edited(dialog.input_text()) is None
    assert "nothing was changed" in drawn(dialog)
    assert dialog.edited("{") is None
    assert dialog.edited('{"a":' * 5_000) is None
    assert "not a JSON object" in drawn(dialog)
    assert dialog.edited('["x"]') is None
    assert dialog.edited('{"command": "ls"}') == Answer("allow", input={"command": "ls"})


def test_the_question_mark_shows_all_of_the_input() -> None:
    dialog = PermissionDialog(REQUEST)
    assert '"command": "rm x"' not in drawn(dialog)
    dialog.press("?")
    assert '"command": "rm x"' in drawn(dialog)


def test_characters_a_terminal_hides_are_revealed_to_the_person_deciding() -> None:
    hidden = PermissionRequested(
        request_id="r", tool="Bash", title="Bash `ls\u202e`", input={"command": "a\nb\u200b\x1b[8m"}
    )
    text = drawn(PermissionDialog(hidden))
    assert "ls\\u202e" in text
    assert "b\\u200b\\u001b[8m" in text


def test_every_changed_line_is_shown_to_the_person_deciding() -> None:
    change = {"path": "a.sql", "old_string": "-- keep\n", "new_string": "++ drop\n"}
    request = PermissionRequested(request_id="r", tool="Edit", title="Edit `a.sql`", input=change)
    text = drawn(PermissionDialog(request))
    assert "--- keep" in text
    assert "+++ drop" in text


def test_a_write_over_a_file_shows_what_it_replaces(tmp_path: Path) -> None:
    def asked(name: str) -> str:
        request = PermissionRequested(
            request_id="r",
            tool="Write",
            title=f"Write `{name}`",
            input={"path": name, "content": "kept\nnew\n"},
            paths=(name,),
        )
        return drawn(PermissionDialog(request, tmp_path))

    (tmp_path / "old").write_text("kept\ngone\u200b\n")
    (tmp_path / "large").write_bytes(b"x" * 3_000_000)
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    os.mkfifo(tmp_path / "pipe")
    old = asked("old")
    for words in ("replaces a file of 2 lines", "1  kept", "2- gone\\u200b", "2+ new"):
        assert words in old
    assert "+ kept" not in old
    assert "a file of 3.0 MB, too large to compare" in asked("large")
    assert "the existing file cannot be shown" in asked("binary")
    assert "the path exists and is not a regular file" in asked("pipe")
    assert "+kept" in asked("large")
    assert "replaces" not in asked("new")


def test_questions_are_asked_one_after_the_other() -> None:
    request = QuestionAsked(
        request_id="q",
        questions=(
            Question("Colour?", "Look", (Choice("Red"), Choice("Blue", "like the sea"))),
            Question("Sizes?", choices=(Choice("S"), Choice("M"), Choice("L")), many=True),
            Question("Name?"),
        ),
    )
    dialog = QuestionDialog(request)
    assert "[2] Blue  like the sea" in drawn(dialog)
    keys = ("2", "1", "3", "1", "2", ENTER, "A", "nn", ENTER)
    assert typed(dialog, *keys) == Answer(
        "allow", answers={"Colour?": "Blue", "Sizes?": "M, L", "Name?": "Ann"}
    )


def test_a_question_can_have_a_custom_answer_or_none() -> None:
    request = QuestionAsked(
        request_id="q", questions=(Question("Colour?", choices=(Choice("Red"), Choice("Blue"))),)
    )
    assert typed(QuestionDialog(request), "t", "green", ENTER) == Answer(
        "allow", answers={"Colour?": "green"}
    )
    assert typed(QuestionDialog(request), "3", "9", ENTER) is None
    refused = typed(QuestionDialog(request), ESCAPE)
    assert isinstance(refused, Answer)
    assert refused.option == "deny"


def test_a_default_request_offers_allow_and_deny() -> None:
    assert REQUEST.options == (ALLOW, DENY)
    assert lines(PermissionDialog(REQUEST))[-2:] == [
        "[y] allow  [n] deny  [a] always…  [r] deny with a reason  [e] edit",
        "[?] details",
    ]


def test_pasted_text_is_one_key_so_it_answers_nothing() -> None:
    assert list(_keys("y")) == ["y"]
    assert list(_keys("y\n")) == ["y", ENTER]
    assert list(_keys("say yes\n")) == ["say yes", ENTER]
    assert list(_keys("a\ny\nb")) == ["a y b"]
    assert list(_keys("\x1b")) == [ESCAPE]
    assert list(_keys("\x1b[A\x1bOB")) == []
    assert list(_keys("é")) == ["é"]


def test_always_is_not_offered_for_an_underspecified_request() -> None:
    dialog = PermissionDialog(PermissionRequested(request_id="r", tool="Write", title="Write"))
    assert typed(dialog, "a") is None
    assert "not specific enough to be remembered" in drawn(dialog)
    assert typed(dialog, "s") is None
    assert typed(dialog, "y") == Answer("allow")


def test_an_edit_is_shown_with_its_lines_in_the_file(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 5_001))
    (tmp_path / "a.py").write_text(text)
    change = {"old_string": "line 4321\n", "new_string": "one\u2028two\n" + "x" * 90 + "\n"}
    dialog = PermissionDialog(request("Edit", file_path="a.py", **change), tmp_path)
    assert lines(dialog)[:-2] == [
        "Edit",
        "4318  line 4318",
        "4319  line 4319",
        "4320  line 4320",
        "4321- line 4321",
        "4321+ one\\u2028two",
        "4322+",
        "x" * 71,
        "x" * 19,
        "4323  line 4322",
        "4324  line 4323",
        "4325  line 4324",
    ]


def test_an_edit_that_does_not_fit_the_file_is_shown_without_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a\n")
    dialog = PermissionDialog(request("Edit", path="a.py", old_str="b\n", new_str="c\n"), tmp_path)
    assert lines(dialog)[1:4] == [
        "does not match the current file: the text was not found",
        "-b",
        "+c",
    ]


def test_each_file_of_a_patch_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n")
    (tmp_path / "b").write_text("1\n")
    patch = "*** Begin Patch\n*** Update File: a\n 1\n-2\n+3\n*** Delete File: b\n*** End Patch"
    dialog = PermissionDialog(request("MultiEdit", patch=patch), tmp_path)
    assert lines(dialog)[:-2] == [
        "MultiEdit", "a", "1  1", "2- 2", "2+ 3", "b", "deletes the file", "1- 1",
    ]  # fmt: skip


PLAN = request("ExitPlanMode", plan="# Plan\n1. Use `Vec<u8>`\n2. Type <Tab>\n")


def test_a_plan_is_shown_as_markdown_with_the_mode_that_follows() -> None:
    assert lines(PermissionDialog(PLAN)) == [
        "ExitPlanMode",
        "Plan",
        "",
        "1. Use Vec<u8>",
        "2. Type <Tab>",
        "Then it continues in agent mode: every edit and command needs approval",
        "(approve ask).",
        "[y] allow  [n] deny  [w] allow this and all edits in this session",
        "[a] always…  [r] deny with a reason  [e] edit  [?] details",
    ]
    auto = " ".join(lines(PermissionDialog(PLAN, None, "auto")))
    assert "edits and commands run unasked (approve auto)" in auto


def test_all_edits_are_allowed_where_that_saves_a_request() -> None:
    edit = request("Write", path="a", content="x")
    assert typed(PermissionDialog(edit), "w") == ALL_EDITS
    assert typed(PermissionDialog(PLAN), "w") == ALL_EDITS
    assert typed(PermissionDialog(edit, None, "edits"), "w") is None
    assert typed(PermissionDialog(REQUEST), "w") is None
    assert "all edits" not in drawn(PermissionDialog(REQUEST))


def test_long_content_can_be_scrolled_to() -> None:
    plan = "\n\n".join(f"paragraph {number}" for number in range(30))
    dialog = PermissionDialog(request("ExitPlanMode", plan=plan))
    assert lines(dialog, 12)[0] == "ExitPlanMode"
    assert "… lines 1 to 7 of 60: ↑ ↓ to scroll" in lines(dialog, 12)
    dialog.press(DOWN)
    assert lines(dialog, 12)[0] == "paragraph 0"
    for _ in range(9):
        dialog.press(PAGE_DOWN)
    assert "paragraph 29" in lines(dialog, 12)
    dialog.press(UP)
    assert "… lines 53 to 59 of 60: ↑ ↓ to scroll" in lines(dialog, 12)
    assert len(lines(dialog, 12)) == 12


def test_arrows_are_keys_when_they_arrive_alone() -> None:
    assert list(_keys("\x1b[A")) == [UP]
    assert list(_keys("\x1bOB")) == [DOWN]
    assert list(_keys("\x1b[6~")) == [PAGE_DOWN]
