"""The agent of a new session: the last one used here, otherwise a ready one, and never the mock."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.surfaces.tui import stories
from tests.surfaces.tui.desk import desk
from tests.surfaces.tui.machine import Machine
from tests.surfaces.tui.stories import Story
from tillerman.core.events import TurnEnded, TurnStarted
from tillerman.surfaces.tui.conversation.view import ConversationView


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def worked(agent: str, id: str = "aa00000001") -> Story:
    return Story(
        id, [TurnStarted(origin="prompt", prompt="x"), TurnEnded(reason="completed")], agent
    )


def slow(machine: Machine) -> Path:
    """A Claude Code that prints nothing until this file exists."""
    file = machine.home / "go"
    program = machine.bin / "claude"
    wait = f"while not os.path.exists({str(file)!r}): time.sleep(0.02)"
    program.write_text(f"#!{sys.executable} -I\nimport os, sys, time\n{wait}\nsys.exit(1)\n")
    program.chmod(0o755)
    return file


async def test_the_last_agent_of_the_folder_starts_before_the_others_answered(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_cursor()
    file = slow(machine)
    elsewhere = machine.home
    await stories.store_all(machine.home, machine.project, [worked("cursor"), worked("mock", "bb")])
    await stories.store_all(machine.home, elsewhere, [worked("codex", "cc")])
    began = time.monotonic()
    async with desk(machine.home, machine.project, monkeypatch, agent=None) as who:
        await who.sees("cursor works in")
        assert time.monotonic() < began + 8  # it would wait for ever
        assert "claude" not in who.app.reports
        assert who.pane.standing().agent == "cursor"
        file.touch()
        await who.until(lambda: "claude" in who.app.reports)


async def test_a_last_agent_that_is_no_longer_ready_is_reported(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_claude()
    await stories.store_all(machine.home, machine.project, [worked("claude")])
    async with desk(machine.home, machine.project, monkeypatch, agent=None) as who:
        await who.sees("claude works in")
        await who.sees("not signed in")


async def test_a_prompt_waits_for_a_ready_agent_and_goes_to_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_cursor()
    async with desk(
        machine.home, machine.project, monkeypatch, agent=None, options={}, approve="auto"
    ) as who:
        await who.write("hello")
        await who.press("enter")
        await who.rests(1)
        assert who.pane.standing().agent == "cursor"


async def test_without_a_ready_agent_a_prompt_is_returned_and_the_mock_is_not_used(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_claude()
    await stories.store_all(machine.home, machine.project, [worked("mock")])
    async with desk(machine.home, machine.project, monkeypatch, agent=None) as who:
        await who.write("hello")
        await who.press("enter")
        await who.sees("no agent is ready: the prompt was not sent")
        assert who.box.text == "hello"
        harness = await who.app.opened()
        assert [row.id for row in harness.sessions.catalog.list()] == ["aa00000001"]
        await who.press("ctrl+u")
        await who.write("/agent mock")
        await who.press("enter")
        await who.sees("ready; it starts with your first prompt")
        await who.write("hello")
        await who.press("enter")
        await who.sees("You said: hello")


async def test_escape_leaves_the_conversation_and_cancels_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [[{"read": "a.txt"}, {"say": "I begin."}, {"hang": True}]]
    async with desk(machine.home, machine.project, monkeypatch, turns) as who:
        await who.write("go")
        await who.press("enter")
        await who.sees("I begin.")
        await who.press("tab")
        await who.until(lambda: who.pane.query_one(ConversationView).has_focus)
        await who.sees("esc Back")
        await who.press("up", "enter", "escape")
        await who.until(lambda: who.box.has_focus)
        assert who.pane.transcript.busy
        await who.press("escape")
        await who.rests(1)
        assert who.pane.transcript.turns[-1].status == "cancelled"


async def test_escape_leaves_the_whole_input_of_a_request_and_cancels_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [[{"write": "a.txt", "text": "x\n"}]]
    async with desk(machine.home, machine.project, monkeypatch, turns, approve="ask") as who:
        await who.write("go")
        await who.press("enter")
        await who.asked("1+ x")
        await who.press("question_mark")
        await who.sees('"text": "x\\n"')
        await who.press("escape")
        await who.sees("1+ x")
        assert who.pane.transcript.requests
        await who.press("y")
        await who.rests(1)
        assert (machine.project / "a.txt").exists()
