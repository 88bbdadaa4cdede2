"""The last line shows whole keys, only active ones, as many as fit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.tui.desk import Desk, desk
from tests.surfaces.tui.machine import Machine
from tillerman.surfaces.tui.bars.key_bar import KeyLine

HANGS = [[{"say": "I begin."}, {"hang": True}]]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def _line(who: Desk) -> str:
    return who.seen().splitlines()[-1]


async def test_keys_that_do_not_fit_are_left_out_whole(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.sees("^o Model")
        for width in range(100, 20, -7):
            await who.pilot.resize_terminal(width, 24)
            await who.pilot.pause()
            line = _line(who)
            assert len(line) <= width
            assert line.rstrip().endswith("^p Commands")
            assert "Send" in line
            assert all(word in line for word in ("^q Quit",) if "^q" in line)
        assert "Model" not in _line(who)


async def test_cancel_and_steer_are_offered_while_a_turn_runs(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, HANGS) as who:
        assert "Cancel" not in _line(who)
        assert "Next step" not in _line(who)  # it is no repository
        who.pane.prompt("go")
        await who.until(lambda: "esc Cancel" in _line(who) and "^s Steer" in _line(who))
        await who.press("escape")
        await who.until(lambda: "Cancel" not in _line(who))


async def test_a_click_on_a_key_presses_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.sees("^l Sessions")
        await who.pilot.click(KeyLine, offset=(_line(who).index("Sessions"), 0))
        await who.sees("Sessions of")
        await who.press("escape")
