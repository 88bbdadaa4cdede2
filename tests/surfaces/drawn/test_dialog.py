import io
import os
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from bridle.core.events import (
    ALLOW,
    DENY,
    Answer,
    Choice,
    Option,
    PermissionRequested,
    Question,
    QuestionAsked,
)
from bridle.surfaces.cli.keyboard import _keys
from bridle.surfaces.drawn.dialog import EDIT, Dialog, PermissionDialog, QuestionDialog
from bridle.surfaces.drawn.keys import BACKSPACE, CLEAR, ENTER, ESCAPE

REQUEST = PermissionRequested(
    request_id="r", tool="Bash", title="Bash `rm x`", input={"command": "rm x"}, reason="tidy up"
)


def typed(dialog: Dialog, *keys: str) -> Answer | str | None:
    reply = None
    for key in keys:
        assert reply is None
        reply = dialog.press(key)
    return reply


def drawn(dialog: Dialog) -> str:
    file = io.StringIO()
    Console(file=file, width=80, markup=False).print(dialog.draw())
    return file.getvalue()


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


def test_what_an_agent_would_not_take_is_not_offered() -> None:
    fixed = PermissionDialog(replace(REQUEST, changeable=False))
    assert "[e] edit" in drawn(PermissionDialog(REQUEST))
    assert "[e] edit" not in drawn(fixed)
    assert typed(fixed, "e") is None
    assert "takes no changed input" in drawn(fixed)


def test_what_comes_back_from_the_editor_is_checked() -> None:
    dialog = PermissionDialog(REQUEST)
    assert dialog.edited(dialog.input_text()) is None
    assert "nothing was changed" in drawn(dialog)
    assert dialog.edited("{") is None
    assert "not a JSON object" in drawn(dialog)
    assert dialog.edited('["x"]') is None
    assert dialog.edited('{"command": "ls"}') == Answer("allow", input={"command": "ls"})


def test_the_question_mark_shows_all_of_the_input() -> None:
    dialog = PermissionDialog(REQUEST)
    assert '"command": "rm x"' not in drawn(dialog)
    dialog.press("?")
    assert '"command": "rm x"' in drawn(dialog)


def test_what_a_terminal_would_hide_is_revealed_to_who_decides() -> None:
    hidden = PermissionRequested(
        request_id="r", tool="Bash", title="Bash `ls\u202e`", input={"command": "a\nb\u200b\x1b[8m"}
    )
    text = drawn(PermissionDialog(hidden))
    assert "ls\\u202e" in text
    assert "b\\u200b\\u001b[8m" in text


def test_every_line_that_would_change_is_shown_to_who_decides() -> None:
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
    (tmp_path / "large").write_bytes(b"x" * 300_000)
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    os.mkfifo(tmp_path / "pipe")
    old = asked("old")
    for words in ("replaces a file of 2 lines", " kept", "-gone\\u200b", "+new"):
        assert words in old
    assert "+kept" not in old
    assert "replaces a file of 300.0 kB" in asked("large")
    assert "replaces a file that cannot be shown" in asked("binary")
    assert "there is something else than a file already" in asked("pipe")
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


def test_a_question_can_have_an_answer_of_ones_own_or_none() -> None:
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
    keys = "[y] allow  [n] deny  [a] always…  [r] deny, and why  [e] edit  [?] all of it"
    assert keys in drawn(PermissionDialog(REQUEST))


def test_pasted_text_is_one_key_so_it_answers_nothing_by_chance() -> None:
    assert list(_keys("y")) == ["y"]
    assert list(_keys("y\n")) == ["y", ENTER]
    assert list(_keys("say yes\n")) == ["say yes", ENTER]
    assert list(_keys("a\ny\nb")) == ["a y b"]
    assert list(_keys("\x1b")) == [ESCAPE]
    assert list(_keys("\x1b[A\x1bOB")) == []
    assert list(_keys("é")) == ["é"]


def test_always_is_not_offered_for_what_says_too_little() -> None:
    dialog = PermissionDialog(PermissionRequested(request_id="r", tool="Write", title="Write"))
    assert typed(dialog, "a") is None
    assert "does not say enough to be remembered" in drawn(dialog)
    assert typed(dialog, "s") is None
    assert typed(dialog, "y") == Answer("allow")
