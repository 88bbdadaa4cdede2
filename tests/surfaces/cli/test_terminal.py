"""The live screen on a pseudo-terminal: streaming, dialogs, Ctrl-C, and restoring the terminal."""

import json
import re
import sys
from typing import Any

from tests.surfaces.conftest import Bench, Terminal, wait_until

WRITE: dict[str, Any] = {
    "write": "a.txt",
    "text": "one\n",
    "reason": "to try",
    "else": [{"say": "Refused: {answer}"}],
}
ASKS = [{"say": "I write."}, WRITE, {"say": "Done."}]
SGR = re.compile(r"\x1b\[[0-9;]*m")


def run(bench: Bench, steps: list[dict[str, Any]], *words: str, **environment: str) -> Terminal:
    return bench.terminal("run", "-a", "mock", *words, json.dumps(steps), **environment)


def test_a_turn_is_shown_with_its_answer_and_summary(bench: Bench) -> None:
    terminal = run(bench, [{"say": "It is **fine**."}])
    assert terminal.end() == 0
    assert "It is fine." in terminal.text
    assert re.search(r"✓ completed · [\d.]+ s · \d+ in, 3 out · \$0\.0000", terminal.text)
    assert "to continue: tillerman run --resume" in terminal.text


def test_the_key_y_allows(bench: Bench) -> None:
    terminal = run(bench, ASKS)
    terminal.wait_for("[y] allow")
    assert "to try" in terminal.text
    assert "1+ one" in terminal.text
    terminal.press("y")
    assert terminal.end() == 0
    assert "→ allowed by you" in terminal.text
    assert (bench.project / "a.txt").read_text() == "one\n"


def test_a_write_over_a_file_shows_the_removed_lines(bench: Bench) -> None:
    (bench.project / "a.txt").write_text("zero\n")
    terminal = run(bench, ASKS)
    terminal.wait_for("[y] allow")
    assert "replaces a file of 1 line" in terminal.text
    assert "1- zero" in terminal.text
    terminal.press("n")
    assert terminal.end() == 0


def test_the_key_n_denies(bench: Bench) -> None:
    terminal = run(bench, ASKS)
    terminal.wait_for("[n] deny")
    terminal.press("n")
    assert terminal.end() == 0
    assert "⊘ Write a.txt" in terminal.text
    assert not (bench.project / "a.txt").exists()


def test_a_denial_with_its_reason_reaches_the_agent(bench: Bench) -> None:
    terminal = run(bench, ASKS)
    terminal.wait_for("[r] deny with a reason")
    terminal.press("r")
    terminal.wait_for("reason:")
    terminal.press("use b.txt\r")
    assert terminal.end() == 0
    assert "Refused: use b.txt" in terminal.text


def test_the_input_is_edited_in_the_users_editor(bench: Bench) -> None:
    editor = bench.home / "editor.py"
    editor.write_text(
        "import sys, pathlib\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "print('the editor has the terminal')\n"
        "path.write_text(path.read_text().replace('one', 'two'))\n"
    )
    terminal = run(bench, ASKS, EDITOR=f"{sys.executable} {editor}")
    terminal.wait_for("[e] edit")
    terminal.press("e")
    assert terminal.end() == 0
    assert "the editor has the terminal" in terminal.text
    assert (bench.project / "a.txt").read_text() == "two\n"


def test_always_is_our_rule_and_the_agent_receives_one_answer(bench: Bench) -> None:
    options = [
        {"id": "once", "label": "Yes", "kind": "allow"},
        {"id": "ever", "label": "Yes, always", "kind": "always"},
        {"id": "no", "label": "No", "kind": "deny"},
    ]
    terminal = run(bench, [WRITE | {"options": options}, {"say": "Answer: {answer}"}])
    terminal.wait_for("[a] always…")
    terminal.press("a")
    terminal.wait_for("[s] in this session")
    terminal.press("s")
    assert terminal.end() == 0
    assert "Yes, always" not in terminal.text
    assert "Answer: once" in terminal.text


def test_questions_are_answered_by_number_and_by_text(bench: Bench) -> None:
    questions = [
        {"text": "Which colour?", "choices": [{"label": "Red"}, {"label": "Blue"}]},
        {"text": "Which name?"},
    ]
    terminal = run(bench, [{"question": questions}, {"say": "You chose {answer}."}])
    terminal.wait_for("[2] Blue")
    terminal.press("2")
    terminal.wait_for("Which name?")
    terminal.press("Ann\r")
    assert terminal.end() == 0
    assert "You chose Blue, Ann." in terminal.text


def test_input_typed_before_the_question_is_no_answer(bench: Bench) -> None:
    terminal = run(bench, [{"say": "Wait."}, {"sleep": 1}, WRITE])
    terminal.wait_for("Wait.")
    terminal.press("yyy")
    terminal.wait_for("[y] allow")
    assert terminal.press_until_end("n") == 0
    assert not (bench.project / "a.txt").exists()


def test_typed_keys_are_not_echoed_and_the_terminal_is_restored(bench: Bench) -> None:
    terminal = run(bench, [{"say": "Wait."}, {"sleep": 1}, {"say": "End."}])
    terminal.wait_for("Wait.")
    terminal.press("zzzz")
    assert terminal.end() == 0
    assert "zzzz" not in terminal.text
    assert terminal.modes[:6] == terminal.before[:6]
    assert b"\x1b[?25h" in terminal.raw[terminal.raw.rfind(b"\x1b[?25l") :]


def test_ctrl_c_cancels_and_still_prints_the_summary(bench: Bench) -> None:
    terminal = run(bench, [{"say": "Before."}, {"hang": True}])
    terminal.wait_for("Before.")
    terminal.interrupt()
    assert terminal.end() == 130
    assert "cancelling; press Ctrl-C again to exit immediately" in terminal.text
    assert "⊘ cancelled" in terminal.text
    assert terminal.modes[:6] == terminal.before[:6]


def test_ctrl_c_in_a_dialog_cancels(bench: Bench) -> None:
    terminal = run(bench, ASKS)
    terminal.wait_for("[y] allow")
    terminal.interrupt()
    assert terminal.end() == 130
    assert not (bench.project / "a.txt").exists()


def test_ctrl_c_twice_exits_at_once_and_restores_the_terminal(bench: Bench) -> None:
    terminal = run(bench, [{"deaf": True}, {"say": "Before."}, {"hang": True}])
    terminal.wait_for("Before.")
    terminal.interrupt()
    terminal.wait_for("cancelling")
    terminal.interrupt()
    assert terminal.end() == 130
    assert terminal.raw.endswith(b"\x1b[?25h")  # the cursor is there again
    assert terminal.modes[:6] == terminal.before[:6]


def test_no_control_of_an_agent_reaches_the_terminal(bench: Bench) -> None:
    evil = "\x1b]0;owned\x07\x1b]52;c;eA==\x07\x1b[?1049h\x9b2J\x1bPq\x1b\\\u202e"
    steps = [
        {"think": f"a{evil}"},
        {"say": f"b{evil}&#x202e;"},
        {"run": f"echo '{evil}'"},
        {"notice": f"c{evil}"},
        {"plan": [f"d{evil}"]},
        {"fail": "api_error", "message": f"e{evil}", "hint": f"f{evil}"},
    ]
    terminal = run(bench, steps, "--approve", "auto")
    terminal.wait_for("[y] allow")  # of characters that cannot be seen a person decides
    terminal.press("y")
    assert terminal.end() == 1
    for bad in ("owned\x07", "\x1b]", "\x1bP", "\x1b[?1049h", "\x9b", "\u202e", "\x07"):
        assert bad not in terminal.raw.decode(), bad


def test_no_color_and_the_option_remove_the_colours(bench: Bench) -> None:
    steps = [{"say": "**bold**"}, {"fail": "api_error"}]
    colours = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7])m")
    assert colours.search(_raw(run(bench, steps)))
    assert not colours.search(_raw(run(bench, steps, NO_COLOR="1")))
    assert not colours.search(_raw(run(bench, steps, "--color", "never")))
    assert colours.search(_raw(run(bench, steps, "--color", "always", NO_COLOR="1")))


def _raw(terminal: Terminal) -> bytes:
    terminal.end()
    return terminal.raw


def test_a_dumb_terminal_gets_plain_text(bench: Bench) -> None:
    terminal = run(bench, [{"say": "It is **fine**."}], TERM="dumb")
    assert terminal.end() == 0
    assert "It is **fine**." in terminal.text
    assert b"\x1b" not in terminal.raw


def test_a_fast_stream_is_shown_whole(bench: Bench) -> None:
    steps = [{"say": "\n".join(f"row {n}  " for n in range(3000))}, {"say": "The end."}]
    terminal = run(bench, steps)
    assert terminal.end() == 0
    rows = [int(row) for row in re.findall(r"row (\d+)", terminal.text)]
    # What moves is painted again and again, so a row counts at its last position.
    assert list(dict.fromkeys(reversed(rows))) == list(reversed(range(3000)))
    assert "The end." in terminal.text


def test_a_stopped_terminal_does_not_stop_the_session(bench: Bench) -> None:
    steps = [
        {"say": "Before."},
        {"sleep": 0.5},
        *({"say": f"Line {n}.\n\n"} for n in range(200)),
        {"write": "a.txt", "text": "x"},  # which the policy must allow first
        {"say": "After."},
    ]
    terminal = run(bench, steps, "--approve", "edits")
    terminal.wait_for("Before.")
    terminal.press("\x13")  # Ctrl-S
    wait_until((bench.project / "a.txt").exists)
    assert "After." not in terminal.text
    terminal.press("\x11")  # Ctrl-Q
    assert terminal.end() == 0
    assert "After." in terminal.text
    assert "Line 199." in terminal.text


def test_a_closed_terminal_ends_the_turn(bench: Bench) -> None:
    terminal = run(bench, [{"say": "Before."}, {"hang": True}])
    terminal.wait_for("Before.")
    terminal.close()
    terminal.process.wait(timeout=15)
    shown = bench.run("sessions", "show", "last", "--json").stdout
    ends = [json.loads(line)["event"] for line in shown.splitlines() if "turn_ended" in line]
    assert [end["reason"] for end in ends] == ["cancelled"]


def test_options_without_a_command_open_the_terminal_interface(bench: Bench) -> None:
    terminal = bench.terminal("-a", "mock", "--approve", "edits")
    terminal.wait_for("approve edits")
    terminal.press("\x11")
    assert terminal.end() == 0
