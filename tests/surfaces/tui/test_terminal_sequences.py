"""What the terminal is sent beside the screen: notifications, and text that is copied."""

from __future__ import annotations

import base64
import json
import re

import pytest

from tests.surfaces.conftest import Bench, Terminal

FOCUS_LOST = "\x1b[O"
NOTIFIED = b"\x1b]9;tillerman: Bash `touch here`\x07"
SEQUENCE = re.compile(rb"\x1b\][^\x07\x1b]*\x07")
COPIED = re.compile(rb"\x1b\]52;c;([^\x07]*)\x07")
STEPS = [{"sleep": 1.5}, {"run": "touch here"}]


def asked(bench: Bench, how: str, **environment: str) -> Terminal:
    bench.run("config", "set", "screen.notify", how)
    terminal = bench.terminal("tui", "-a", "mock", size=(100, 40), **environment)
    terminal.wait_for("mock")
    terminal.press(json.dumps(STEPS))
    terminal.wait_for("touch")
    terminal.press("\r")
    terminal.press(FOCUS_LOST)
    terminal.wait_for("needs your approval")
    return terminal


@pytest.mark.parametrize(
    ("how", "notified", "rung"),
    [("desktop", True, True), ("bell", False, True), ("none", False, False)],
)
def test_the_setting_decides_what_the_terminal_is_sent(
    bench: Bench, how: str, notified: bool, rung: bool
) -> None:
    terminal = asked(bench, how)
    terminal.listen(1.0)
    assert (NOTIFIED in terminal.raw) is notified
    assert (b"\x07" in SEQUENCE.sub(b"", terminal.raw)) is rung


def test_tmux_is_asked_to_pass_the_notification_on(bench: Bench) -> None:
    terminal = asked(bench, "desktop", TMUX="/tmp/tmux,1,0")
    terminal.listen(1.0)
    assert b"\x1bPtmux;\x1b" + NOTIFIED + b"\x1b\\" in terminal.raw


def test_copied_text_is_sent_to_the_terminal(bench: Bench) -> None:
    terminal = bench.terminal("tui", "-a", "mock", size=(100, 40))
    terminal.wait_for("mock")
    terminal.press(json.dumps([{"say": "Copy me."}]))
    terminal.wait_for("Copy")
    terminal.press("\r")
    terminal.wait_for("completed")
    terminal.press("/copy")
    terminal.wait_for("copy")
    terminal.listen(0.5)
    terminal.press("\r")
    terminal.listen(1.5)
    assert b"\x1b]52;c;" + base64.b64encode(b"Copy me.") in terminal.raw


def test_text_selected_by_the_mouse_is_copied(bench: Bench) -> None:
    terminal = bench.terminal("tui", "-a", "mock", size=(100, 40))
    terminal.wait_for("mock")
    terminal.press(json.dumps([{"say": "Select me, please."}]))
    terminal.wait_for("Select")
    terminal.press("\r")
    terminal.wait_for("completed")
    for line in range(2, 12):  # wherever the message is
        terminal.press(f"\x1b[<0;3;{line}M\x1b[<32;30;{line}M\x1b[<32;60;{line}M\x1b[<0;60;{line}m")
        terminal.listen(0.3)
        terminal.press("\x03")
        terminal.listen(0.3)
    copied = [base64.b64decode(text) for text in COPIED.findall(terminal.raw)]
    assert any(b"Select me, please." in text for text in copied), copied
