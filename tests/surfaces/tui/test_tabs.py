"""Several sessions are open and run at once, each in a tab that shows its status."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import Any

import pytest
from textual.screen import ModalScreen

from tests.surfaces.tui.desk import Desk, desk
from tests.surfaces.tui.machine import Machine
from tillerman.surfaces.tui.bars.tab_bar import TabBar
from tillerman.surfaces.tui.session_pane import SessionPane

HANGS = [{"say": "I begin."}, {"hang": True}]
SAYS = [{"say": "You said: {prompt}"}]
ASKS = [{"run": "touch made", "reason": "to make it"}]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def _states(who: Desk) -> list[str]:
    return [tab.state for tab in who.app.tabs()]


def _asked(who: Desk) -> bool:
    return isinstance(who.app.screen, ModalScreen)


async def _send_prompt(who: Desk, text: str) -> None:
    who.pane.prompt(text)
    await who.until(lambda: who.pane.channel and who.pane.channel.id)


async def _new_tab(who: Desk) -> None:
    count = len(who.app.panes)
    await who.press("ctrl+t")
    await who.until(lambda: len(who.app.panes) == count + 1 and who.pane is who.app.panes[-1])


def _script(machine: Machine, turn: list[dict[str, Any]]) -> None:
    """For sessions that start from now on."""
    (machine.home / "script.json").write_text(json.dumps([turn]))


async def test_one_session_has_no_tab_bar_and_two_have(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        assert not who.app.query_one(TabBar).display
        await _send_prompt(who, "the first one")
        await who.rests(1)
        await _new_tab(who)
        await who.sees("1 the first one")
        assert who.app.query_one(TabBar).display
        await who.sees("2 new session")
        assert who.box.has_focus
        await who.press("ctrl+w")
        await who.until(lambda: len(who.app.panes) == 1)
        assert not who.app.query_one(TabBar).display
        await who.sees("You said: the first one")


async def test_sessions_run_side_by_side_and_their_tabs_show_their_state(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, [HANGS]) as who:
        await _send_prompt(who, "one that hangs")
        await who.sees("I begin.")
        _script(machine, ASKS)
        await _new_tab(who)
        await _send_prompt(who, "one that asks")
        await who.until(lambda: who.pane.transcript.requests)
        _script(machine, [{"listen": 0.3}, *SAYS])
        await _new_tab(who)
        await _send_prompt(who, "one that ends")
        await who.press("alt+1")
        await who.until(lambda: _states(who) == ["running", "waiting", "finished"])
        bar = who.app.query_one(TabBar).render().plain
        assert [bar.index(mark) for mark in "▸!●"] == sorted(bar.index(mark) for mark in "▸!●")
        await who.press("ctrl+pageup")  # round the end
        await who.until(lambda: _states(who) == ["running", "waiting", ""])
        await who.sees("You said: one that ends")
        await who.press("alt+2")
        await who.sees("touch made")
        assert not who.box.has_focus  # the next key answers
        await who.press("y")
        await who.until((machine.project / "made").exists)
        await who.press("alt+1", "escape")
        await who.until(lambda: _states(who)[0] == "")


async def test_a_tab_is_chosen_by_a_click(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _new_tab(who)
        await _new_tab(who)
        assert who.pane is who.app.panes[2]
        await who.pilot.click(TabBar, offset=(3, 0))
        await who.until(lambda: who.pane is who.app.panes[0])
        await who.press("ctrl+pagedown")
        assert who.pane is who.app.panes[1]


async def test_a_tab_whose_turn_runs_is_closed_only_after_a_confirmation(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, [HANGS]) as who:
        await _send_prompt(who, "hang")
        await who.until(lambda: who.pane.transcript.busy)
        session = who.pane.channel.id if who.pane.channel else ""
        await who.press("ctrl+w")
        await who.sees("The agent is still working: hang")
        await who.press("n")
        await who.until(lambda: not _asked(who))
        assert who.pane.transcript.busy
        await who.press("ctrl+w")
        await who.sees("cancel and close")
        await who.press("y")
        await who.until(lambda: who.pane.blank)  # the last one leaves an empty one behind
        assert len(who.app.panes) == 1
        harness = await who.app.opened()
        await who.until(lambda: harness.find(session or "").owner_pid is None)
        assert harness.find(session or "").status == "cancelled"


async def test_tabs_opened_and_closed_quickly_have_the_right_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        for _ in range(3):
            who.app.action_new_tab()
        await who.until(lambda: len(who.app.panes) == 4)
        for _ in range(8):
            who.app.action_close_tab()
            await asyncio.sleep(0)
        await who.press("ctrl+w", "ctrl+w", "ctrl+w", "ctrl+w")
        await who.until(lambda: len(who.app.panes) == 1)
        assert who.box.has_focus


async def test_a_word_is_deleted_before_a_tab_is_closed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _new_tab(who)
        await who.write("two words")
        await who.press("ctrl+w")
        assert who.box.text == "two "
        assert len(who.app.panes) == 2


async def test_an_open_session_is_switched_to_and_not_opened_twice(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _send_prompt(who, "hello")
        await who.rests(1)
        harness = await who.app.opened()
        row = harness.find("last")
        first = who.pane
        await _new_tab(who)
        assert await who.app.open_pane(row) is first
        assert who.pane is first
        assert len(who.app.panes) == 2


async def test_an_empty_tab_is_used_for_a_session_that_is_resumed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _send_prompt(who, "hello")
        await who.rests(1)
        row = (await who.app.opened()).find("last")
        await who.press("ctrl+w")
        await who.until(lambda: who.pane.blank)
        await who.app.open_pane(row)
        assert len(who.app.panes) == 1
        await who.sees("You said: hello")


async def test_quitting_with_running_turns_asks_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, [HANGS]) as who:
        await _send_prompt(who, "hang")
        await _new_tab(who)
        await _send_prompt(who, "hang too")
        await who.until(lambda: _states(who) == ["running", "running"])
        await who.press("ctrl+q")
        await who.sees("2 agents are still working")
        await who.press("n")
        await who.until(lambda: not _asked(who))
        assert _states(who) == ["running", "running"]
        await who.press("ctrl+q")
        await who.sees("cancel and quit")
        await who.press("y")
        await who.until(lambda: who.app._exit)


async def test_a_session_that_runs_elsewhere_is_watched_and_only_left(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        command = [sys.executable, "-m", "tillerman", "run", "-a", "mock", json.dumps(HANGS)]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL
        )
        try:
            catalog = (await who.app.opened()).sessions.catalog
            await who.until(lambda: catalog.list(status="running"))
            await who.press("ctrl+l")
            await who.sees("elsewhere")
            await who.press("enter")
            await who.sees("I begin.")
            await who.sees("(elsewhere)")
            await who.press("ctrl+w")
            await who.until(lambda: who.pane.blank and len(who.app.panes) == 1)
            assert not _asked(who)
            assert process.returncode is None
            assert catalog.list(status="running")
        finally:
            process.terminate()
            await process.wait()


async def test_a_session_deleted_elsewhere_stays_on_the_screen(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _send_prompt(who, "hello")
        await who.rests(1)
        harness = await who.app.opened()
        row = harness.find("last")
        await who.press("ctrl+w")
        await who.until(lambda: who.pane.blank and not who.app._closing_panes)
        await who.app.open_pane(row)
        await who.sees("You said: hello")
        await harness.sessions.delete(row)
        await _new_tab(who)
        await who.press("alt+1")
        await who.sees("You said: hello")
        await who.write("more")
        await who.press("enter")
        await who.sees("Error")


async def test_updates_that_arrive_while_the_store_closes_are_not_shown(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await _send_prompt(who, "hello")
        await who.rests(1)
        pane = who.pane
        await who.press("ctrl+q")
        await who.until(lambda: who.app._exit)
        who.app.on_session_pane_changed(SessionPane.Changed(pane))
