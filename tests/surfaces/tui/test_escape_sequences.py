"""No control sequence in an agent's text, output, names or questions reaches the terminal."""

from __future__ import annotations

import json
import re
import time

from tests.surfaces.conftest import Bench, Terminal
from tillerman.surfaces.tui.dialogs.request_prompt import GRACE

# What no screen of ours sends by itself: recognized again if it were handed on.
SEQUENCES = {
    "title": "\x1b]0;EVIL\x07",
    "title by ST": "\x1b]2;EVIL\x1b\\",
    "link": "\x1b]8;;http://EVIL\x1b\\here\x1b]8;;\x1b\\",
    "clipboard": "\x1b]52;c;RVZJTA==\x07",
    "notification": "\x1b]777;notify;EVIL;EVIL\x07",
    "cursor": "\x1b[6661;6662H",
    "color": "\x1b[38;5;6663m",
    "private mode": "\x1b[?6664h",
    "report": "\x1b[6665n",
    "scroll region": "\x1b[6666;6667r",
    "window": "\x1b[6668;1t",
    "device string": "\x1bP6669$qEVIL\x1b\\",
    "application": "\x1b_EVIL\x1b\\",
    "privacy": "\x1b^EVIL\x1b\\",
    "string": "\x1bXEVIL\x1b\\",
    "reset": "\x1bc",
    "charset": "\x1b(0",
    "save": "\x1b#8",
    "C1 CSI": "\x9b6670m",
    "C1 OSC": "\x9d0;EVIL\x9c",
    "C1 DCS": "\x906671qEVIL\x9c",
    "unterminated": "\x1b]0;EVIL",
    "half": "\x1b[",
    "bidi": "\u202eEVIL\u202c\u2066x\u2069\u200f",
    **{f"C0 {code:02x}": chr(code) + "x" for code in range(1, 0x20) if code not in (9, 10, 13)},
    "delete": "\x7fx",
    **{f"C1 {code:02x}": chr(code) + "x" for code in range(0x80, 0xA0)},
}
ALL = " ".join(f"<{sequence}>" for sequence in SEQUENCES.values())
NAME = "a\x1b]0;EVIL\x07\x9b6672m\u202eb.txt"
_ESCAPES = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])"
)
_OBEYED = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xaa-\xae]"
    rb"|\xe2\x81[\xa6-\xa9]|\xd8\x9c"
)


# What the screen itself sends to a terminal: colours, places of at most three digits, its modes.
_BYTE = rb"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_OURS = re.compile(
    rb"\x1b\[(?:" + _BYTE + rb"(?:;" + _BYTE + rb")*)?m"
    rb"|\x1b\[(?:\d{1,3};\d{1,3}H|H|[<>]\d*u|\?u|c)"
    rb"|\x1b\[\?(?:7|25|1000|1003|1004|1006|1015|1016|1049|2004|2026|2031|2048)[hl]"
    rb"|\x1b\[\?(?:2026|2048)\$p"
    rb"|\x1b\]22;[a-z]*(?:\x07|\x1b\\)"
)  # fmt: skip


def obeyed(raw: bytes) -> list[bytes]:
    """The control sequences that the terminal got and that are not tillerman's."""
    sequences = [found.group() for found in _ESCAPES.finditer(raw)]
    strange = [one for one in sequences if not _OURS.fullmatch(one)]
    return strange + _OBEYED.findall(_ESCAPES.sub(b"", raw))


def test_the_check_itself_finds_each_of_them() -> None:
    for name, sequence in SEQUENCES.items():
        assert obeyed(sequence.encode()), name


def played(bench: Bench, steps: list[dict[str, object]], *words: str) -> Terminal:
    script = bench.home / "script.json"
    script.write_text(json.dumps([steps]))
    terminal = bench.terminal(
        "tui", "-a", "mock", *words, size=(160, 120), COLUMNS="160", LINES="120"
    )
    terminal.wait_for("mock works in")
    terminal.press(f"script:{script}\r")
    return terminal


def test_text_and_questions_of_an_agent_are_shown_and_not_interpreted(bench: Bench) -> None:
    asked = {"text": ALL, "header": ALL, "choices": [{"label": ALL, "description": ALL}]}
    steps: list[dict[str, object]] = [
        {"say": f"a message {ALL}"},
        {"think": f"a thought {ALL}"},
        {"notice": f"a notice {ALL}"},
        {"plan": [f"a plan {ALL}"]},
        {"question": [asked]},
        {"say": "that is all"},
    ]
    terminal = played(bench, steps)
    terminal.wait_for("skip")
    for kind in ("message", "thought", "notice", "plan"):
        assert f"a {kind} <" in terminal.text
    time.sleep(GRACE)
    terminal.press("1")
    terminal.wait_for("completed")
    terminal.press("\x11")
    terminal.end()
    assert obeyed(terminal.raw) == []


def test_output_names_and_titles_are_shown_and_not_interpreted(bench: Bench) -> None:
    (bench.project / "out").write_text(ALL)
    steps: list[dict[str, object]] = [
        {"run": "cat out; exit 3"},
        {"write": NAME, "text": ALL},
        {"read": NAME},
        {"run": f"echo '{SEQUENCES['title']}{SEQUENCES['cursor']}'"},
        {"say": "that is all"},
    ]
    terminal = played(bench, steps, "--approve", "edits")
    since = terminal.wait_for("[y] allow")
    time.sleep(GRACE)
    terminal.press("?")
    since = terminal.wait_for("less", since)
    terminal.press("y")
    terminal.wait_for("completed")
    terminal.press("\x0c")  # the sessions, by their titles
    seen = terminal.wait_for("esc Close")
    terminal.press("\x1b")
    seen = terminal.wait_for("⏎ Send", seen)  # an unused key rings our own bell
    terminal.press("/diff\r")
    terminal.wait_for("in turn 1", seen)
    terminal.press("\x11")
    terminal.end()
    assert obeyed(terminal.raw) == []
