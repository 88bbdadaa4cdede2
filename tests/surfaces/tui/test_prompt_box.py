"""The prompt box: sending, drafts, history, completion and queueing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App, ComposeResult

from tests.surfaces.tui.desk import desk, type_in
from tillerman.core.transcript.blocks import TextBlock, Turn
from tillerman.surfaces.tui.prompt.completions import Completion
from tillerman.surfaces.tui.prompt.history import PromptHistory, matching
from tillerman.surfaces.tui.prompt.prompt_box import PromptBox
from tillerman.surfaces.tui.prompt.queued_prompts import waiting


class Alone(App[None]):
    """The box, and a parent that receives its messages."""

    def __init__(self, folder: Path, past: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.box = PromptBox(folder)
        self.box.sources.past = PromptHistory(lambda: past)
        self.box.sources.commands = lambda: [
            Completion("/help", "list commands and keys"),
            Completion("/model", "switch model"),
            Completion("/models", "the models"),
        ]
        self.received: list[PromptBox.Submitted] = []

    def compose(self) -> ComposeResult:
        yield from self.box.above
        yield self.box

    def on_mount(self) -> None:
        self.box.focus()

    def on_prompt_box_submitted(self, message: PromptBox.Submitted) -> None:
        self.received.append(message)

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.received]


async def test_enter_sends_and_empties_the_box(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        await type_in(pilot, "do it")
        await pilot.press("enter")
        assert app.texts == ["do it"]
        assert app.box.text == ""
        await pilot.press("space", "enter")
        assert app.texts == ["do it"]


@pytest.mark.parametrize("key", ["shift+enter", "ctrl+j", "alt+enter"])
async def test_other_enters_make_a_new_line(tmp_path: Path, key: str) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        await pilot.press("a", key, "b", "enter")
        assert app.texts == ["a\nb"]


async def test_a_backslash_at_the_end_makes_a_new_line(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        await pilot.press("a", "backslash", "enter", "b", "enter")
        assert app.texts == ["a\nb"]


def test_alt_enter_of_an_old_terminal_is_known() -> None:
    from textual._xterm_parser import XTermParser

    keys = [event.key for event in XTermParser(False).feed("\x1b\r")]  # type: ignore[attr-defined]
    assert keys == ["alt+enter"]


async def test_the_box_grows_to_ten_lines_and_no_further(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test(size=(80, 40)) as pilot:
        assert app.box.content_size.height == 1
        await pilot.press(*["ctrl+j"] * 4)
        assert app.box.content_size.height == 5
        await pilot.press(*["ctrl+j"] * 20)
        assert app.box.content_size.height == 10


async def test_the_cursor_does_not_blink(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        await pilot.press("a")
        assert not app.box.cursor_blink
        assert not app.box.blink_timer._active.is_set()


# -- history ---------------------------------------------------------------------------------------


async def _recalled(pilot: Any, app: Alone, key: str) -> str:
    await pilot.press(key)
    await app.workers.wait_for_complete()
    await pilot.pause()
    return app.box.text


async def test_up_and_down_move_in_the_history_and_keep_the_draft(tmp_path: Path) -> None:
    app = Alone(tmp_path, ("newest", "two\nlines", "oldest"))
    async with app.run_test() as pilot:
        await type_in(pilot, "draft")
        seen = [await _recalled(pilot, app, "up") for _ in range(4)]
        assert seen == ["newest", "two\nlines", "oldest", "oldest"]
        seen = [await _recalled(pilot, app, key) for key in ("down", "down", "down")]
        assert seen == ["two\nlines", "newest", "draft"]


async def test_up_moves_within_the_lines_first(tmp_path: Path) -> None:
    app = Alone(tmp_path, ("newest",))
    async with app.run_test() as pilot:
        await pilot.press("a", "ctrl+j", "b")
        assert await _recalled(pilot, app, "up") == "a\nb"
        assert await _recalled(pilot, app, "up") == "newest"


async def test_the_prompt_sent_here_is_the_newest(tmp_path: Path) -> None:
    app = Alone(tmp_path, ("older",))
    async with app.run_test() as pilot:
        await type_in(pilot, "now")
        await pilot.press("enter")
        seen = [await _recalled(pilot, app, "up") for _ in range(2)]
        assert seen == ["now", "older"]


async def test_the_history_is_searched_by_words(tmp_path: Path) -> None:
    app = Alone(tmp_path, ("fix the parser", "write docs", "the parser is slow"))
    async with app.run_test() as pilot:
        await type_in(pilot, "draft")
        await pilot.press("ctrl+r")
        await type_in(pilot, "parser the")
        await app.workers.wait_for_complete()
        assert [one.word for one in app.box.completions.choices] == [
            "fix the parser",
            "the parser is slow",
        ]
        await pilot.press("down", "enter")
        assert app.box.text == "the parser is slow"
        assert app.texts == []


async def test_escape_leaves_the_search_with_the_draft(tmp_path: Path) -> None:
    app = Alone(tmp_path, ("fix the parser",))
    async with app.run_test() as pilot:
        await type_in(pilot, "draft")
        await pilot.press("ctrl+r", "x")
        await app.workers.wait_for_complete()
        await pilot.press("escape")
        await pilot.pause()
        assert app.box.text == "draft"
        assert not app.box.completions.open


def test_words_may_be_in_any_order() -> None:
    assert matching(["One two", "two", "three"], "two ONE") == ["One two"]


async def test_prompts_of_earlier_sessions_in_this_folder_are_recalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for prompt in ("first", "second"):
        async with desk(tmp_path / "home", project, monkeypatch) as at:
            await at.write(prompt)
            await at.press("enter")
            await at.rests(1)
    async with desk(tmp_path / "home", project, monkeypatch) as at:
        await at.press("up")
        await at.until(lambda: at.box.text == "second")
        await at.press("up")
        await at.until(lambda: at.box.text == "first")
    other = tmp_path / "other"
    other.mkdir()
    async with desk(tmp_path / "home", other, monkeypatch) as at:
        assert await at.box.sources.past.read() == []


# -- commands --------------------------------------------------------------------------------------


async def test_a_command_is_completed_after_a_slash(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        await type_in(pilot, "/mo")
        await pilot.pause()
        assert [one.word for one in app.box.completions.choices] == ["/model", "/models"]
        await pilot.press("tab")
        assert app.box.text == "/model "
        await pilot.press("x", "enter")
        assert app.texts == ["/model x"]


async def test_enter_sends_the_command_that_is_chosen(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        await type_in(pilot, "/mo")
        await pilot.press("down", "enter")
        await pilot.pause()
        assert app.texts == ["/models"]
        assert not app.box.completions.open


async def test_enter_right_behind_the_letters_completes_their_command(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        await pilot.press("slash", "h", "e", "enter")
        assert app.texts == ["/help"]


async def test_keys_of_a_burst_are_handled_in_order(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        for key in ("a", "ctrl+j", "b", "left", "x", "enter", "y"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await pilot.pause()
        assert app.texts == ["a\nxb"]
        assert app.box.text == "y"


async def test_a_path_at_the_beginning_is_no_command(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        await type_in(pilot, "/usr/bin")
        assert not app.box.completions.open
        await pilot.press("enter")
        assert app.texts == ["/usr/bin"]


async def test_a_list_on_a_small_screen_leaves_the_box_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch, size=(40, 12)) as at:
        await at.press("slash")
        await at.sees("1 of ")
        assert "│ /" in at.seen()
        await at.press("up")
        await at.sees("/theme")


async def test_a_hidden_character_in_a_commands_help_is_not_drawn(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    app.box.sources.commands = lambda: [Completion("/bad\x1b[31m", "help\x1b]0;title\x07")]
    async with app.run_test() as pilot:
        await pilot.press("slash")
        await pilot.pause()
        assert "\x1b" not in app.box.completions.render().plain  # type: ignore[union-attr]


# -- while a turn runs -----------------------------------------------------------------------------


async def test_a_prompt_sent_while_a_turn_runs_is_queued_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [[{"listen": 30}, {"say": "heard {steer}"}], [{"say": "second"}]]
    async with desk(tmp_path / "home", tmp_path, monkeypatch, turns) as at:
        await at.write("one")
        await at.press("enter")
        await at.until(lambda: at.pane.transcript.busy)
        await at.write("two")
        await at.press("enter")
        await at.sees("1 queued: two")
        assert at.pane.standing().queued == 1
        await at.write("three")
        await at.press("ctrl+s")
        await at.rests(2)
        assert [turn.prompt for turn in at.pane.transcript.turns] == ["one", "two"]
        await at.sees("heard three")
        await at.until(lambda: "queued: two" not in at.seen())


def test_the_queue_has_the_queued_prompts_that_have_not_begun() -> None:
    first = Turn(1, prompt="one", status="completed", blocks=[TextBlock("two", "queued")])
    first.blocks.append(TextBlock("three", "queued"))
    assert waiting([first]) == ["two", "three"]
    assert waiting([first, Turn(2, prompt="two")]) == ["three"]
    first.status = "cancelled"
    assert waiting([first]) == []


async def test_escape_cancels_the_turn_when_nothing_else_is_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(tmp_path / "home", tmp_path, monkeypatch, [[{"hang": True}]]) as at:
        await at.write("one")
        await at.press("enter")
        await at.until(lambda: at.pane.transcript.busy)
        await at.write("/h")
        await at.until(lambda: at.box.completions.open)
        await at.press("escape")
        assert not at.box.completions.open
        assert at.pane.transcript.busy
        await at.press("escape")
        await at.rests(1)
        assert at.pane.transcript.turns[0].status == "cancelled"


async def test_a_key_can_be_changed(tmp_path: Path) -> None:
    app = Alone(tmp_path)
    async with app.run_test() as pilot:
        app.set_keymap({"send": "ctrl+o"})
        await pilot.press("a", "ctrl+o")
        assert app.texts == ["a"]


async def test_a_waiting_prompt_returns_to_the_box_when_its_turn_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[list[dict[str, Any]]] = [[{"run": "sleep 60"}]]
    async with desk(tmp_path / "home", tmp_path, monkeypatch, turns, approve="auto") as at:
        await at.write("first")
        await at.press("enter")
        await at.until(lambda: at.pane.transcript.busy)
        await at.write("second")
        await at.press("enter")
        await at.until(lambda: at.pane.standing().queued == 1)
        await at.press("escape")
        await at.until(lambda: not at.pane.transcript.busy)
        assert at.box.text == "second"
