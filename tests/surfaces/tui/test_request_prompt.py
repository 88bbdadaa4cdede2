"""Requests of an agent, answered on the screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from tests.surfaces.tui.desk import desk
from tests.surfaces.tui.machine import Machine
from tillerman.surfaces.tui.dialogs import request_prompt
from tillerman.surfaces.tui.dialogs.input_editor import InputEditor
from tillerman.surfaces.tui.dialogs.request_prompt import RequestPrompt


async def test_text_typed_after_an_answer_is_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    turns = [[{"run": "echo done > ran.txt"}, {"say": "The end."}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("[y] allow")
        request = who.pane.query_one(RequestPrompt)
        for key in "yen":  # in one burst
            request.post_message(events.Key(key, key))
        await who.rests(1)
        assert not isinstance(who.app.screen, InputEditor)
        assert (machine.project / "ran.txt").read_text() == "done\n"
        await who.sees("→ allowed by you")
        assert who.box.text == "en", "it went to the box"


async def test_a_letter_that_arrives_with_the_request_goes_to_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_prompt, "GRACE", 60.0)  # however slow this machine is
    machine = Machine(tmp_path, monkeypatch)
    turns = [[{"run": "echo done > ran.txt"}, {"say": "The end."}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.until(lambda: who.pane.query_one(RequestPrompt).has_focus)
        await who.write("yes")
        assert who.box.text == "yes"
        assert who.box.has_focus
        assert who.pane.transcript.requests
        await who.press("escape")
        await who.rests(1)
    assert not (machine.project / "ran.txt").exists()


@pytest.mark.parametrize("typed", ["no wait", "yes!", "1 2 3", "a?r", "naïve 漢"])
async def test_no_key_is_lost_as_a_request_appears(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str
) -> None:
    monkeypatch.setattr(request_prompt, "GRACE", 60.0)
    machine = Machine(tmp_path, monkeypatch)
    turns = [[{"run": "echo done > ran.txt"}, {"say": "The end."}]] * 2
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.until(lambda: who.pane.query_one(RequestPrompt).has_focus)
        request = who.pane.query_one(RequestPrompt)
        keys = [events.Key(sign, sign) for sign in typed]
        for key in [events.Key("enter", "\r"), *keys, events.Key("backspace", "\x7f")]:
            request.post_message(key)
        await who.until(lambda: who.box.text == typed[:-1])
        assert who.pane.transcript.requests
        await who.press("escape")
        await who.rests(1)
    assert not (machine.project / "ran.txt").exists()


async def test_text_pasted_over_a_request_goes_to_the_box(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    turns = [[{"run": "echo done > ran.txt"}, {"say": "The end."}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("[y] allow")
        who.pane.query_one(RequestPrompt).post_message(events.Paste("yes, but later"))
        await who.until(lambda: who.box.text == "yes, but later")
        assert who.pane.transcript.requests
        await who.press("escape")
        await who.rests(1)


async def test_a_key_that_is_pressed_twice_answers_one_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    turns = [[{"run": "sh one"}, {"run": "echo two > ran.txt"}, {"say": "The end."}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("[y] allow")
        monkeypatch.setattr(request_prompt, "TWICE", 60.0)  # however slow this machine is
        await who.press("y")
        monkeypatch.setattr(request_prompt, "GRACE", 60.0)
        await who.sees("echo two > ran.txt")
        await who.press("y")
        assert not who.box.text
        assert who.pane.transcript.requests
        monkeypatch.setattr(request_prompt, "GRACE", 0.0)
        await who.press("y")
        await who.rests(1)
    assert (machine.project / "ran.txt").read_text() == "two\n"


async def test_the_key_line_shows_what_escape_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    turns = [[{"run": "echo done > ran.txt"}, {"say": "The end."}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("[y] allow")
        await who.sees("esc Cancel")
        await who.press("?")
        await who.sees("esc Back")
        assert "esc Cancel" not in who.seen()
        await who.press("escape")
        await who.sees("esc Cancel")
        assert who.pane.transcript.requests
        await who.press("y")
        await who.rests(1)
    assert (machine.project / "ran.txt").exists()


async def test_all_edits_of_the_session_are_allowed_with_one_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    turns = [[{"write": "a", "text": "x\n"}, {"edit": "a", "old": "x", "new": "y"}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("[w] allow this and all edits in this session")
        await who.press("w")
        await who.rests(1)
        await who.sees("approve edits")
        assert (machine.project / "a").read_text() == "y\n"


async def test_a_plan_is_read_on_the_screen_and_stays_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    plan = "# The plan\n1. Use **Vec<u8>**\n2. Type <Tab>"
    turns = [[{"present": plan}, {"write": "a", "text": "x\n"}, {"say": "The end."}]]
    requested = {"approve": "ask", "mode": "plan"}
    async with desk(machine.home, machine.project, monkeypatch, turns, **requested) as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("2. Type <Tab>")
        await who.sees("Then it continues in agent mode: every edit and command needs approval")
        assert '"plan"' not in who.seen()
        await who.press("y")
        await who.asked("Write a")
        await who.sees("· agent · approve ask")
        await who.press("w")
        await who.rests(1)
        await who.sees("1. Use Vec<u8>")
        assert (machine.project / "a").exists()
