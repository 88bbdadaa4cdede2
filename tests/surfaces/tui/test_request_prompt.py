"""What an agent waits for, answered on the screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events

from bridle.surfaces.tui.input_editor import InputEditor
from bridle.surfaces.tui.request_prompt import RequestPrompt

from .desk import desk
from .machine import Machine


async def test_what_is_typed_after_an_answer_is_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(tmp_path, monkeypatch)
    turns = [[{"run": "echo done > ran.txt"}, {"say": "The end."}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.sees("[y] allow")
        request = who.pane.query_one(RequestPrompt)
        for key in "yen":  # in one burst
            request.post_message(events.Key(key, key))
        await who.rests(1)
        assert not isinstance(who.app.screen, InputEditor)
        assert (machine.project / "ran.txt").read_text() == "done\n"
        assert "→ allowed from terminal" in who.seen()
