"""Unusual conditions of a screen: a terminal of one cell, the end of its terminal, fast keys."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.segment import Segment
from textual import events
from textual.screen import ModalScreen
from textual.strip import Strip

from tests.surfaces.conftest import Bench, Terminal, wait_until
from tests.surfaces.tui.desk import Desk, desk
from tests.surfaces.tui.machine import Machine
from tillerman.core.events import Answer
from tillerman.surfaces.rendering.markdown_stream import Block
from tillerman.surfaces.tui import session_controller
from tillerman.surfaces.tui.app import TillermanApp
from tillerman.surfaces.tui.commands import COMMANDS, Command
from tillerman.surfaces.tui.conversation.blocks import ConversationBlock, MessageBlock
from tillerman.surfaces.tui.conversation.viewport import KEPT, Viewport
from tillerman.surfaces.tui.keys import keymap
from tillerman.surfaces.tui.keys.focus_scopes import PLACES
from tillerman.surfaces.tui.prompt.prompt_box import PromptBox

HANGS = [{"say": "I begin."}, {"hang": True}]
LEAVES_THE_SCREEN = b"\x1b[?1049l"
NO_MOUSE = b"\x1b[?1000l"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


# -- the terminal ----------------------------------------------------------------------------------


async def test_a_terminal_may_have_any_small_size(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = [{"say": "| a | b |\n|---|---|\n| 日本 | 👍 |\n"}, {"write": "a", "text": "日本\n"}]
    sizes = [(1, 1), (2, 2), (3, 50), (4, 4), (200, 1)]
    async with desk(machine.home, machine.project, monkeypatch, [turn] * len(sizes)) as who:
        for turns, size in enumerate(sizes, 1):
            await who.pilot.resize_terminal(*size)
            await who.write("go")
            await who.press("enter")
            await who.until(lambda: who.pane.transcript.requests)
            await who.press("ctrl+p")
            await who.until(lambda: isinstance(who.app.screen, ModalScreen))
            await who.pilot.pause()
            await who.press("escape")
            await who.pilot.resize_terminal(80, 24)
            await who.asked("permission")
            await who.press("n")
            await who.rests(turns)


def _working(bench: Bench, turn: list[dict[str, Any]]) -> Terminal:
    (bench.project / "s.json").write_text(json.dumps([turn]))
    terminal = bench.terminal("tui", "-a", "mock")
    terminal.wait_for("works in")
    terminal.press("script:s.json")
    terminal.wait_for("s.json")
    terminal.press("\r")
    terminal.wait_for("I begin.")
    return terminal


def _state(bench: Bench) -> str:
    (row,) = json.loads(bench.run("sessions", "list", "--json").stdout)
    return str(row["status"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ending_the_program_restores_the_terminal(bench: Bench, number: signal.Signals) -> None:
    terminal = _working(bench, HANGS)
    os.kill(terminal.process.pid, number)
    assert terminal.end() == 128 + number
    assert LEAVES_THE_SCREEN in terminal.raw
    assert NO_MOUSE in terminal.raw
    assert terminal.modes == terminal.before
    assert _state(bench) == "cancelled"


def test_a_stopped_screen_is_drawn_again_when_continued(bench: Bench) -> None:
    terminal = bench.terminal("tui", "-a", "mock")
    terminal.wait_for("works in")
    os.kill(terminal.process.pid, signal.SIGTSTP)
    wait_until(lambda: terminal._read(0.01) and LEAVES_THE_SCREEN in terminal.raw)
    seen = len(terminal.text)
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.wait_for("works in", seen)


def test_a_closed_terminal_ends_its_programs(bench: Bench) -> None:
    terminal = _working(bench, HANGS)
    terminal.close()
    wait_until(lambda: terminal.process.poll() is not None)
    assert _state(bench) == "cancelled"


# -- haste -----------------------------------------------------------------------------------------


def _type(who: Desk, *keys: str) -> None:
    """Types faster than the screen reads."""
    for key in keys:
        who.app.post_message(events.Key(key, key if len(key) == 1 else None))


async def test_typed_text_stays_in_its_tab_though_the_tab_was_changed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        first = who.pane
        await who.press("ctrl+t")
        await who.until(lambda: who.pane is not first)
        second = who.pane
        _type(who, "x", "enter", "ctrl+pageup")
        await who.until(lambda: first.transcript.turns or second.transcript.turns)
        assert [turn.prompt for turn in second.transcript.turns] == ["x"]
        await who.until(lambda: not second.transcript.busy)


async def _starting(who: Desk) -> None:
    await who.write("go")
    _type(who, "enter")
    await who.until(lambda: who.pane.channel and who.pane.channel.starting)


async def test_cancelling_while_the_agent_starts_restores_the_prompt(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, [HANGS]) as who:
        await _starting(who)
        _type(who, "escape")
        await who.sees("cancelled before the agent had started")
        assert who.box.text == "go"
        assert not who.pane.busy
        await who.press("enter")
        await who.until(lambda: who.pane.transcript.busy)
        await who.press("escape")
        await who.rests(1)


async def test_a_prompt_typed_right_after_a_new_session_is_its_first(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [[{"run": "echo done > ran.txt"}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        who.box.post_message(PromptBox.Submitted(who.box, "/clear", (), "queue"))
        who.box.post_message(PromptBox.Submitted(who.box, "go", (), "queue"))
        await who.asked("[y] allow")
        await who.press("y")
        await who.rests(1)
    assert (machine.project / "ran.txt").read_text() == "done\n"


async def test_unexpected_errors_are_shown_as_a_notice_and_the_screen_continues(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(app: TillermanApp, words: str) -> None:
        raise ZeroDivisionError("by nought")

    monkeypatch.setitem(COMMANDS, "/broken", Command("/broken", "", "it breaks", broken))
    async with desk(machine.home, machine.project, monkeypatch) as who:
        who.app.command("/broken")
        await who.sees("ZeroDivisionError: by nought")
        await who.sees("this is a bug in tillerman, at test_hostile_screen.py, line")
        await who.write("go")
        await who.press("enter")
        await who.rests(1)


async def test_a_mode_chosen_while_the_agent_starts_applies(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _starting(who)
        assert who.pane.channel
        await who.pane.channel.configure(mode="plan")
        await who.until(lambda: who.pane.transcript.mode == "plan")
        await who.rests(1)


async def test_a_session_whose_agent_starts_is_not_cleared(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _starting(who)
        who.app.command("/clear")
        await who.sees("The agent is still working")
        await who.rests(1)
        assert who.pane.channel
        assert who.pane.channel.ours


# -- far into the past -----------------------------------------------------------------------------


async def test_one_key_scrolls_to_the_beginning_of_a_partly_read_session(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_controller, "TAIL", 10)
    turn = [{"repeat": 60, "steps": [{"read": "nothing"}]}]
    async with desk(machine.home, machine.project, monkeypatch, [turn]) as who:
        await who.write("the first words")
        await who.press("enter")
        await who.rests(1)
        assert who.pane.channel
        row = who.pane.channel.row
        await who.app.close_pane(who.pane)
        await who.app.open_pane(row)
        await who.until(lambda: who.pane.outline.pieces)
        who.pane.conversation.focus()
        await who.press("home")
        await who.sees("the first words")


class _Numbered:
    """An outline of as many pieces; each is drawn as lines with its number."""

    def __init__(self, count: int) -> None:
        self.pieces = [
            ConversationBlock(MessageBlock(Block(str(number)))) for number in range(count)
        ]

    def refresh(self, tick: int = 0) -> None: ...

    @staticmethod
    def draw(piece: ConversationBlock, width: int) -> list[Strip]:
        assert isinstance(piece.thing, MessageBlock)
        return [
            Strip([Segment(f"{piece.thing.block.text} {line}")]) for line in range(400 // width)
        ]


def _text(document: Viewport, y: int) -> str:
    line = document.line(y)
    assert line
    return line.text


def test_rendered_lines_out_of_sight_are_dropped() -> None:
    outline = _Numbered(4_000)
    document = Viewport(outline, outline.draw, 100)
    document.end(60)
    y = 30
    while not document.at_start:
        seen = _text(document, y)
        y += document.before()
        assert _text(document, y) == seen
        y = 30
    assert document.height < KEPT + 400
    y = document.height - 30
    while not document.at_end:
        seen = _text(document, y)
        y -= document.after()
        assert _text(document, y) == seen
        y = document.height - 30
    assert document.height < KEPT + 400
    assert sum(piece.drawn is not None for piece in outline.pieces) < (KEPT + 400) / 4


def test_the_line_being_read_stays_in_place_when_the_width_changes() -> None:
    outline = _Numbered(50)
    document = Viewport(outline, outline.draw, 4)
    document.show_from(7, 200)
    place = document.place(50)
    assert place
    y = document.rewidth(8, place, 60)
    assert _text(document, y) == "7 25"
    assert document.height >= y + 60


# -- what others wrote -----------------------------------------------------------------------------

MARKUP = "[/x] [@click=app.leave]y[/] [$error]z [@click="


async def test_a_title_is_not_markup_where_its_input_is_changed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = [{"run": f"make '{MARKUP}'"}]
    async with desk(machine.home, machine.project, monkeypatch, [turn]) as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("[y] allow")
        await who.press("e")
        await who.sees("Allow with changes")
        await who.sees(f"Bash make '{MARKUP}'")
        await who.press("escape", "n")
        await who.rests(1)


async def test_a_waiting_prompt_is_not_markup(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, [HANGS]) as who:
        await who.write("go")
        await who.press("enter")
        await who.sees("I begin.")
        who.pane.prompt(MARKUP)
        await who.sees(f"1 queued: {MARKUP[:20]}")
        await who.press("escape")
        await who.rests(1)


async def test_changing_an_input_shows_that_another_user_has_answered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = [{"run": "make"}, {"say": "Done."}]
    async with desk(machine.home, machine.project, monkeypatch, [turn]) as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("[y] allow")
        await who.press("e")
        await who.sees("Allow with changes")
        (asked,) = who.pane.transcript.requests
        assert who.pane.channel
        await who.pane.channel.answer(asked, Answer("deny"))
        await who.sees("answered elsewhere")
        await who.press("ctrl+s")
        await who.rests(1)
        assert not isinstance(who.app.screen, ModalScreen)


async def test_pasted_text_answers_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = [{"question": [{"text": "Which?", "choices": [{"label": "one"}, {"label": "two"}]}]}]
    async with desk(machine.home, machine.project, monkeypatch, [turn]) as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("[1] one")
        who.app.screen.post_message(events.Paste("t12y"))
        await who.pilot.pause()
        assert "your answer" not in who.seen()
        assert who.pane.box.text == "t12y"
        await who.press("tab", "tab", "2")  # past the conversation, back to the request
        await who.rests(1)
        await who.sees("two")


def test_conflicting_keys_are_reported_once() -> None:
    reported = keymap.problems({"quit": "ctrl+g"}, PLACES)
    assert reported == ["ctrl+g is bound to agent and quit"]


@pytest.mark.parametrize(
    "line", ["/cost", "/status", "/sessions", "!true", "/theme tillerman-light"]
)
def test_a_line_that_is_sent_right_before_quitting_breaks_nothing(bench: Bench, line: str) -> None:
    terminal = bench.terminal("tui", "-a", "mock", size=(100, 40))
    terminal.wait_for("mock")
    terminal.press('[{"say": "Hello."}]')
    terminal.wait_for("Hello")
    terminal.press("\r")
    terminal.wait_for("completed")
    terminal.press(line)
    terminal.listen(0.5)
    terminal.press("\r\x11")
    assert (terminal.end(), "Traceback" in terminal.text) == (0, False)
