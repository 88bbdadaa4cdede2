"""Agents, models, modes and themes are selected from lists; keys and commands are found by name."""

from __future__ import annotations

import importlib
import pkgutil
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from textual.app import App
from textual.binding import Binding
from textual.color import Color
from textual.dom import DOMNode
from textual.theme import Theme

from tests.surfaces.tui.desk import Desk, desk
from tests.surfaces.tui.machine import Machine
from tillerman.surfaces import tui
from tillerman.surfaces.tui import fuzzy, themes
from tillerman.surfaces.tui.app import TillermanApp
from tillerman.surfaces.tui.approval_preset import ApprovalPicker
from tillerman.surfaces.tui.dialogs.agent_picker import AgentPicker
from tillerman.surfaces.tui.dialogs.mode_picker import ModePicker
from tillerman.surfaces.tui.dialogs.model_picker import ModelPicker
from tillerman.surfaces.tui.dialogs.picker import Picker, PickerRow
from tillerman.surfaces.tui.dialogs.theme_picker import ThemePicker
from tillerman.surfaces.tui.keys import keymap
from tillerman.surfaces.tui.keys.focus_scopes import PLACES


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def _on(who: Desk, kind: type[Picker]) -> bool:
    return isinstance(who.app.screen, kind)


def _picker(who: Desk) -> Picker:
    assert isinstance(who.app.screen, Picker)
    return who.app.screen


def _states(who: Desk) -> dict[str, str]:
    return {row.key: row.state for row in _picker(who).list.rows}


# -- a few letters ---------------------------------------------------------------------------------


def test_a_name_is_found_by_some_of_its_letters() -> None:
    names = ["claude", "claude-agent-acp", "codex", "codex-acp", "cursor"]
    assert fuzzy.best("cxa", names, str) == ["codex-acp"]
    assert fuzzy.best("acp", names, str) == ["codex-acp", "claude-agent-acp"]
    assert fuzzy.best("", names, str) == names
    assert fuzzy.best("x cod", names, str) == ["codex", "codex-acp"]
    assert fuzzy.best("zz", names, str) == []


def test_matched_letters_are_marked() -> None:
    for query, name, letters in (
        ("acp", "claude-agent-acp", (13, 14, 15)),
        ("cd", "xcxxcd", (4, 5)),
        ("ab cd", "cd-ab", (0, 1, 3, 4)),
    ):
        found = fuzzy.match(query, name)
        assert found is not None
        assert found[1] == letters


def test_a_long_name_of_one_letter_costs_no_time() -> None:
    before = time.monotonic()
    assert fuzzy.match("a" * 20 + "b", "a" * 5_000) is None
    assert time.monotonic() - before < 0.5


# -- the list itself -------------------------------------------------------------------------------


class _Shown(App[None]):
    def __init__(self, picker: Picker) -> None:
        super().__init__()
        self.picker = picker
        self.chosen: list[str | None] = []

    def on_mount(self) -> None:
        themes.apply_theme(self)
        self.push_screen(self.picker, self.chosen.append)


def _rows() -> list[PickerRow]:
    return [
        PickerRow("one", "one", "ready", "the first"),
        PickerRow("two", "t\x1b[31mwo\u202e", "old", "with\nlines"),
        PickerRow("three", "three", hint="because it is asleep", off=True),
    ]


async def test_a_row_is_chosen_by_keys_by_letters_or_by_a_click() -> None:
    app = _Shown(Picker("Numbers", _rows()))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press("down", "enter")
        assert app.chosen == ["two"]
    app = _Shown(Picker("Numbers", _rows()))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press("o", "n", "e", "enter")
        assert app.chosen == ["one"]
    app = _Shown(Picker("Numbers", _rows()))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.click(app.picker.list, offset=(5, 1))
        await pilot.pause()
        assert app.chosen == ["two"]


async def test_escape_and_a_click_beside_it_close_the_list() -> None:
    app = _Shown(Picker("Numbers", _rows()))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press("escape")
        assert app.chosen == [None]
    app = _Shown(Picker("Numbers", _rows()))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.click(offset=(0, 0))
        assert app.chosen == [None]


async def test_a_disabled_row_shows_why() -> None:
    app = _Shown(Picker("Numbers", _rows()))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press("t", "h", "r", "enter")
        assert app.chosen == []
        assert "three cannot be selected: because it is asleep" in _text(app)


async def test_of_very_many_rows_some_are_shown_and_letters_find_the_others() -> None:
    app = _Shown(Picker("Models", [PickerRow(f"m{n}", f"model-{n}") for n in range(5_000)]))
    async with app.run_test(size=(70, 20)) as pilot:
        assert "(300 of 5000: type to filter)" in _text(app)
        await pilot.press(*"4711", "enter")
        assert app.chosen == ["m4711"]


async def test_no_row_can_move_the_cursor_or_break_a_line() -> None:
    app = _Shown(Picker("Nu\x1bmbers [b]bold[/b]", _rows()))
    async with app.run_test(size=(60, 20)):
        lines = _text(app).splitlines()
        assert any("[b]bold[/b]" in line for line in lines)
        assert "\x1b" not in "".join(lines)
        assert any("two" in line and "with lines" in line for line in lines)


async def test_the_highlighted_row_stays_when_others_change() -> None:
    app = _Shown(Picker("Numbers", _rows()))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.press("down")
        app.picker.show_row(PickerRow("one", "one", "a much longer state than before"))
        await pilot.pause()
        assert app.picker.list.row
        assert app.picker.list.row.key == "two"
        await pilot.press("enter")
        assert app.chosen == ["two"]


def _text(app: App[None]) -> str:
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


# -- agents ----------------------------------------------------------------------------------------


async def test_agents_show_whether_they_are_ready_and_what_to_run(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_claude()
    machine.has_cursor()
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.press("ctrl+g")
        await who.until(lambda: _on(who, AgentPicker))
        await who.until(lambda: "querying …" not in _states(who).values())
        states = _states(who)
        assert states["claude"] == "not signed in 2.1.325"
        assert states["cursor"].startswith("ready 2026")
        assert (states["mock"], states["codex"]) == ("ready", "not installed")
        await who.write("claude")
        await who.press("enter")
        await who.sees("Claude Code is not signed in" + ": it cannot be selected")
        await who.sees("or sign in here: /login claude")
        assert _on(who, AgentPicker)
        await who.press(*["backspace"] * 6)
        await who.write("codex")
        await who.press("enter")
        await who.sees("to install codex: npm install -g @openai/codex")
        await who.press("escape")
        await who.press("ctrl+g")  # their result is there at once the next time
        await who.until(lambda: _on(who, AgentPicker))
        assert _states(who)["claude"] == "not signed in 2.1.325"
        await who.press("escape")


async def test_before_the_first_prompt_another_agent_is_only_selected(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_cursor()
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.press("ctrl+g")
        await who.until(lambda: _on(who, AgentPicker) and _states(who)["cursor"] != "querying …")
        await who.write("cursor")
        await who.press("enter")
        await who.until(lambda: not _on(who, AgentPicker))
        await who.until(lambda: who.pane.standing().agent == "cursor")


async def test_in_a_session_with_history_another_agent_continues(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_cursor()
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.write("hello")
        await who.press("enter")
        await who.rests(1)
        await who.press("ctrl+g")
        await who.until(lambda: _on(who, AgentPicker) and _states(who)["cursor"] != "querying …")
        await who.write("cursor")
        await who.press("enter")
        await who.sees("it gets a summary of what mock did")


# -- models and modes ------------------------------------------------------------------------------


async def test_models_are_listed_with_their_source(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [[{"say": "I am {model}"}]]
    async with desk(machine.home, machine.project, monkeypatch, turns) as who:
        await who.press("ctrl+o")
        await who.until(lambda: _on(who, ModelPicker) and "mock-deep" in _states(who))
        await who.sees("as listed by mock")
        await who.write("deep")
        await who.press("enter")
        await who.until(lambda: who.pane.standing().model == "mock-deep")
        await who.write("hello")
        await who.press("enter")
        await who.rests(1)
        await who.sees("I am mock-deep")
        await who.press("ctrl+o")
        await who.until(lambda: _on(who, ModelPicker) and "mock-deep" in _states(who))
        assert [row.key for row in _picker(who).list.rows if row.current] == ["mock-deep"]
        await who.press("escape")


async def test_an_unlisted_model_is_used_as_typed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.press("ctrl+o")
        await who.until(lambda: _on(who, ModelPicker) and "mock-deep" in _states(who))
        await who.write("quite-new-9")
        await who.press("enter")
        await who.until(lambda: who.pane.standing().model == "quite-new-9")


async def test_a_mode_is_chosen_and_sent_to_the_agent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.press("f5")
        await who.until(lambda: _on(who, ModePicker))
        await who.press("shift+tab", "enter")
        await who.until(lambda: who.pane.standing().mode == "plan")


async def test_an_unsupported_mode_is_off_and_shows_why(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        assert who.pane.channel
        who.pane.channel.requested["agent"] = "replay"
        await who.press("f5")
        await who.until(lambda: _on(who, ModePicker))
        await who.press("down", "enter")
        await who.sees("Replay supports only agent mode")
        assert _on(who, ModePicker)
        await who.press("escape")


async def test_a_key_toggles_from_asking_to_planning(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the first prompt, and while the agent works, with its open request."""
    turns = [[{"run": "touch a"}, {"write": "b", "text": "x"}, {"hang": True}]]
    async with desk(machine.home, machine.project, monkeypatch, turns) as who:
        await who.sees("mock · approve ask")
        await who.press("shift+tab")
        await who.sees("mock · approve edits")
        await who.press("shift+tab", "shift+tab")
        await who.sees("mock · plan · approve ask")
        await who.press("shift+tab")
        await who.sees("mock · agent · approve ask")
        await who.write("go")
        await who.press("enter")
        await who.asked("permission")
        await who.press("shift+tab", "shift+tab")
        await who.sees("approve auto")
        await who.until((machine.project / "b").exists)
        await who.press("shift+tab")
        await who.sees("plan · approve ask")
        settings = who.pane.channel and who.pane.channel.row and who.pane.channel.row.settings
        assert settings and settings["approve"] == "ask"
        who.pane.box.focus()
        await who.press("escape")
        await who.rests(1)


async def test_an_approval_is_chosen_from_a_list_or_by_its_name(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.write("/approve ")
        await who.press("enter")
        await who.until(lambda: _on(who, ApprovalPicker))
        await who.press("down", "down", "enter")
        await who.sees("Approval: auto")
        await who.sees("mock · approve auto")
        await who.write("/approve readonly")
        await who.press("enter")
        await who.sees("mock · approve readonly")
        await who.write("/approve editz")
        await who.press("enter")
        await who.sees("unknown preset 'editz'")


async def test_an_agent_that_takes_a_preset_only_at_start_is_restarted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[list[dict[str, Any]]] = [[{"say": "one"}], [{"write": "b", "text": "x"}]]
    async with desk(machine.home, machine.project, monkeypatch, turns) as who:
        channel = who.pane.channel
        assert channel
        agent = channel.harness.agent("mock")
        monkeypatch.setattr(agent, "info", replace(agent.info, preset_at_launch=True))
        await who.write("go")
        await who.press("enter")
        await who.rests(1)
        await who.press("shift+tab")
        await who.sees("approve edits")
        await who.write("on")
        await who.press("enter")
        await who.rests(2)
        assert (machine.project / "b").exists()


async def test_an_unknown_agent_is_reported_in_place_of_its_modes(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        assert who.pane.channel
        who.pane.channel.requested["agent"] = "nobody"
        await who.press("f5")
        await who.sees("Error")
        await who.sees("nobody")


# -- themes ----------------------------------------------------------------------------------------


async def test_a_theme_is_previewed_and_stored_when_chosen(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.press("f8")
        await who.until(lambda: _on(who, ThemePicker))
        await who.press("down")
        await who.until(lambda: who.app.theme == "tillerman-light")
        await who.press("escape")
        await who.until(lambda: who.app.theme == "tillerman-dark")
        await who.press("f8")
        await who.until(lambda: _on(who, ThemePicker))
        await who.write("nord")
        await who.press("enter")
        await who.until(lambda: who.app._harness is not None)
        config = who.app._harness.paths.config_file  # type: ignore[union-attr]
        await who.until(lambda: config.exists() and 'theme = "nord"' in config.read_text())
        assert who.app.theme == "nord"


async def test_a_light_screen_does_not_start_dark(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.config('[screen]\ntheme = "tillerman-light"\n')
    monkeypatch.setenv("TILLERMAN_HOME", str(machine.home / "tillerman"))
    assert TillermanApp(machine.project).theme == "tillerman-light"
    async with desk(machine.home, machine.project, monkeypatch) as who:
        assert who.app.theme == "tillerman-light"


async def test_an_unknown_theme_in_the_config_is_reported_and_the_default_stays(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.config('[screen]\ntheme = "pink"\n')
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.sees("unknown theme 'pink'")
        assert who.app.theme == "tillerman-dark"


@pytest.mark.parametrize("theme", themes.OWN, ids=lambda theme: theme.name)
def test_all_text_is_readable(theme: Theme) -> None:
    """WCAG AA: 4.5 to 1."""
    values = theme.to_color_system().generate()
    inks = ["foreground", "text-muted", *(f"text-{name}" for name in _TONES)]
    for ground in ("background", "surface", "panel"):
        for ink in inks:
            assert _contrast(values[ink], values[ground]) >= 4.5, (ink, ground)
    cursor = values["block-cursor-background"]
    for ink in ("block-cursor-foreground", "text-muted", "text-success", "text-warning"):
        assert _contrast(values[ink], cursor) >= 4.5, ink
    palette = themes.DARK_COLORS if theme.dark else themes.LIGHT_COLORS
    for number in range(1, 8):
        ink = Color(*palette.ansi_colors[number]).hex
        assert _contrast(ink, values["background"]) >= 4.5, number


_TONES = ("primary", "secondary", "accent", "warning", "error", "success")


def _contrast(ink: str, ground: str) -> float:
    lights = sorted(_luminance(Color.parse(color)) for color in (ink, ground))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def _luminance(color: Color) -> float:
    parts = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in color.normalized
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


async def test_without_colour_only_the_highlight_is_reversed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.press("f5")
        await who.until(lambda: _on(who, ModePicker))
        app = who.app
        strips = [
            strip.apply_filter(one, Color.parse("#000000"))
            for strip in app.screen._compositor.render_strips()
            for one in app._filters[-1:]
        ]
        styles = [segment.style for strip in strips for segment in strip if segment.style]
        for style in styles:
            assert style.color is None or style.color.is_default
            assert style.bgcolor is None or style.bgcolor.is_default
        assert any(style.reverse for style in styles)
        await who.press("escape")


# -- keys and the palette --------------------------------------------------------------------------


async def test_keys_come_from_the_config_and_wrong_ones_are_reported_by_name(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.config('[screen.keys]\nmode = "f9"\nsing = "f10"\nmodel = "ctrl+g"\n')
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.sees("unknown key action 'sing'")
        await who.sees("ctrl+g is bound to agent and model")
        await who.press("f9")
        await who.until(lambda: _on(who, ModePicker))
        await who.press("escape")


def test_each_key_has_a_name_by_which_the_config_can_change_it() -> None:
    named = {binding.id for binding in keymap.bindings(PLACES)}
    for module in pkgutil.iter_modules(tui.__path__, "tillerman.surfaces.tui."):
        for node in vars(importlib.import_module(module.name)).values():
            if isinstance(node, type) and issubclass(node, DOMNode):
                own = node.BINDINGS if node.__module__ == module.name else []
                for binding in own:
                    assert isinstance(binding, Binding)
                    assert binding.id in named, (node, binding)
    assert keymap.problems({}, PLACES) == []


async def test_the_palette_offers_actions_and_slash_commands(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.press("ctrl+p")
        await who.sees("switch agent, show which are ready")
        await who.write("theme")
        await who.sees("change the theme")
        await who.press("enter")
        await who.until(lambda: _on(who, ThemePicker))
        await who.press("escape")
        await who.press("ctrl+p")
        await who.write("/help")
        await who.sees("list commands and keys")
        await who.press("enter")
        await who.sees("Commands and keys")


async def test_in_a_dialog_the_keys_of_the_app_do_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.press("f5")
        await who.until(lambda: _on(who, ModePicker))
        await who.press("ctrl+t", "ctrl+g", "ctrl+w", "alt+1")
        await who.pilot.pause()
        assert _on(who, ModePicker)
        assert len(who.app.panes) == 1
        await who.press("escape")
