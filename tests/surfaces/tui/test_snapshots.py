"""Every screen in every state equals its snapshot in `snapshots/`, small and large."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.tui import stories
from tests.surfaces.tui.desk import Desk, desk
from tests.surfaces.tui.machine import Machine
from tests.surfaces.tui.snapshots import Album
from tests.surfaces.tui.stories import Story
from tests.workspace.gh_stand_in import RECORDINGS, GhStandIn
from tests.workspace.repositories import git_in, publish, start_repository
from tillerman.surfaces.tui.bars.branch_bar import BreadcrumbBar
from tillerman.surfaces.tui.dialogs.confirmation import Confirmation
from tillerman.surfaces.tui.dialogs.request_prompt import RequestPrompt
from tillerman.surfaces.tui.session_controller import SessionController

NARROW = ((40, 12),)
KEPT = ("LANG", "TERM", "TMPDIR", "TILLERMAN_SNAPSHOTS", "TILLERMAN_PICTURES")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """Nothing of this machine is visible except git: no agent, no key, and a path of the same
    length."""
    git = shutil.which("git")
    assert git
    for name in os.environ:
        if not name.startswith(("PYTEST", "COV", *KEPT)):
            monkeypatch.delenv(name)
    with tempfile.TemporaryDirectory(prefix="desk-", dir="/tmp") as folder:
        made = Machine(Path(folder), monkeypatch)
        monkeypatch.setenv("PATH", str(made.bin))
        (made.bin / "git").symlink_to(git)
        yield made


class Person(Desk):
    """A user who takes snapshots of the screen."""

    album: Album
    home: Path

    async def reads(self, story: Story) -> None:
        """Reads the visible tab."""
        harness = await self.app.opened()
        row = harness.find(story.id)
        self.pane.renew(SessionController(harness, Path(row.cwd), row))
        await self.pilot.pause()
        self.pane.take_focus()
        await self.until(lambda: self.pane.query_one(RequestPrompt).settled)

    async def stores(self, stored: list[Story]) -> None:
        """Stores them after the store was opened, so that open turns are not ended by recovery."""
        await self.app.opened()
        await stories.store_all(self.home, self.pane.folder, stored)

    async def opens_a_tab(self, prompt: str = "") -> None:
        count = len(self.app.panes)
        await self.press("ctrl+t")
        await self.until(lambda: len(self.app.panes) > count and self.pane is self.app.panes[-1])
        if prompt:
            await self.run_command(prompt)

    async def run_command(self, line: str, until: str = "") -> None:
        self.box.text = line
        await self.press("enter")
        if until:
            await self.sees(until)

    async def unfolds(self, *numbers: int) -> None:
        """Unfolds pieces of the conversation, by their positions among the foldable ones."""
        found = [piece for piece in self.pane.outline.pieces if piece.foldable]
        for number in numbers:
            self.pane.conversation._toggle(found[number])
        self.pane.conversation.action_end()

    async def take(self, name: str, **how: Any) -> None:
        await self.album.take(name, **how)


@asynccontextmanager
async def person(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    stored: list[Story] | None = None,
    *,
    folder: Path | None = None,
    **given: Any,
) -> AsyncIterator[Person]:
    folder = folder or machine.project
    await stories.store_all(machine.home, folder, stored or [])
    async with desk(machine.home, folder, monkeypatch, **given) as who:
        found = Person(who.app, who.pilot)
        found.album, found.home = Album(found), machine.home
        yield found
    found.album.check()


# -- the conversation ------------------------------------------------------------------------------


async def test_an_empty_session_greets(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with person(machine, monkeypatch) as who:
        await who.take("welcome")
        await who.take("welcome-narrow", sizes=NARROW)
        await who.take("welcome-light", theme="tillerman-light")


async def test_without_an_agent_the_screen_shows_how_to_get_one(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.has_claude()
    async with person(machine, monkeypatch, agent=None) as who:
        await who.sees("No agent is ready")
        await who.take("welcome-nobody")


async def test_messages_and_calls(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with person(machine, monkeypatch, stories.STORIES) as who:
        await who.reads(stories.MARKDOWN)
        await who.take("markdown")
        await who.take("markdown-light", theme="tillerman-light")
        await who.reads(stories.THINKING)
        await who.take("thought-folded")
        await who.unfolds(0)
        await who.take("thought-unfolded")
        await who.reads(stories.CALLS)
        await who.take("calls")
        await who.take("calls-narrow", sizes=NARROW)
        await who.unfolds(1, 4)
        await who.take("calls-unfolded")
        await who.reads(stories.DIFF)
        await who.take("diff")
        await who.take("diff-light", theme="tillerman-light")
        await who.reads(stories.PLAN)
        await who.take("plan-notices-failure")


async def test_without_colours(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with person(machine, monkeypatch, stories.STORIES) as who:
        await who.reads(stories.CALLS)
        await who.take("calls-no-color")


# -- a turn that runs ------------------------------------------------------------------------------

STREAMS = [{"say": "# So far\n\nThis block is whole.\n\nThis one is **not yet"}, {"hang": True}]
ASKS = [{"run": "git push", "reason": "to publish it"}]
HOLDS = [{"run": "until [ -e go ]; do :; done"}, {"say": "It is done."}]


def _script(machine: Machine, turn: list[dict[str, Any]]) -> None:
    """For sessions that start from now on."""
    (machine.home / "script.json").write_text(json.dumps([turn]))


async def test_a_running_turn(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with person(machine, monkeypatch, turns=[STREAMS]) as who:
        await who.run_command("Begin", "not yet")
        assert who.pane.channel
        assert who.pane.channel.id
        who.album.mask(who.pane.channel.id)
        await who.take("streaming")
        await who.run_command("Then write the tests", "1 queued")
        await who.run_command("and tell me what they cost", "2 queued")
        await who.take("queue")
        _script(machine, ASKS)
        await who.opens_a_tab("Publish it")
        await who.until(lambda: who.pane.transcript.requests)
        _script(machine, HOLDS)
        await who.opens_a_tab("Wait for it")
        await who.until(lambda: who.pane.transcript.busy)
        waits = who.pane
        await who.opens_a_tab()
        (machine.project / "go").touch()
        await who.until(lambda: not waits.transcript.busy)
        await who.sees("● 3 Wait for it")
        await who.take("tabs")
        await who.take("tabs-narrow", sizes=NARROW)
        await who.press("ctrl+q")
        await who.sees("cancel and quit")
        await who.take("quit-while-turns-run")
        await who.press("n")
        for pane in who.app.panes:
            who.app.show_pane(pane.id or "")
            pane.cancel()
            await who.until(lambda pane=pane: not pane.transcript.busy)


async def test_a_running_call(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with person(machine, monkeypatch) as who:
        await who.stores([stories.RUNNING])
        await who.reads(stories.RUNNING)
        await who.take("call-running")


# -- requests --------------------------------------------------------------------------------------


async def test_a_request(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with person(machine, monkeypatch) as who:
        await who.stores(stories.REQUESTS)
        await who.reads(stories.PERMISSION)
        await who.take("permission")
        await who.take("permission-narrow", sizes=NARROW)
        await who.take("permission-light", theme="tillerman-light")
        await who.press("question_mark")
        await who.take("permission-whole")
        await who.press("question_mark", "a")
        await who.take("permission-always")
        await who.press("escape", "r")
        await who.write("not before the review")
        await who.take("permission-reason")
        await who.press("escape", "e")
        await who.sees("Allow with changes")
        await who.take("input-editor")
        await who.press("escape")
        await who.reads(stories.LONG_COMMAND)
        await who.take("permission-long-command")
        parser = machine.project / "src" / "parser.py"
        parser.parent.mkdir()
        parser.write_text(f'"""Reads lines."""\n\n{stories.OLD}')
        await who.reads(stories.WRITE)
        await who.take("permission-edit")
        await who.reads(stories.ONE_QUESTION)
        await who.take("question")
        await who.press("t")
        await who.write("DuckDB")
        await who.take("question-typed")
        await who.reads(stories.MANY)
        await who.press("1", "3")
        await who.take("question-many")


# -- pickers and panels ----------------------------------------------------------------------------


async def test_pickers(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has_claude()
    machine.has_cursor()
    async with person(machine, monkeypatch, [stories.SETTLED]) as who:
        await who.reads(stories.SETTLED)
        await who.press("ctrl+g")
        await who.sees("not signed in")
        await who.until(lambda: "querying" not in who.seen())
        await who.take("agents")
        await who.write("cl")
        await who.take("agents-filtered")
        await who.press("escape", "ctrl+o")
        await who.sees("mock-deep")
        await who.take("models")
        await who.press("escape", "f5")
        await who.sees("reads and plans, without changes")
        await who.take("modes")
        await who.press("escape", "f8")
        await who.sees("tillerman-light")
        await who.take("themes")
        await who.press("escape", "ctrl+p")
        await who.sees("Next step")
        await who.take("palette")
        await who.press("escape")


async def test_servers(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has_cursor()
    machine.has_servers()
    async with person(machine, monkeypatch) as who:
        await who.run_command("/agent cursor", "ready; it starts")
        await who.press("f4")
        await who.sees("docs")
        await who.take("servers")
        await who.press("enter")
        await who.sees("Tools of docs: 2")
        await who.take("servers-tools")
        await who.press("escape")


async def test_the_browser_of_sessions(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    async with person(machine, monkeypatch, stories.SHELF) as who:
        await who.press("ctrl+l")
        await who.sees("Make the parser lazy")
        await who.take("sessions")
        await who.take("sessions-narrow", sizes=NARROW)
        await who.press("down", "r")
        await who.sees("title:")
        await who.take("sessions-rename")
        await who.press("escape", "d")
        await who.sees("permanently?")
        await who.take("sessions-delete")
        await who.press("escape", "slash")
        await who.write("race")
        await who.until(lambda: "Make the parser lazy" not in who.seen())
        await who.take("sessions-search")
        await who.press("escape", "escape")


async def test_completions(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("parser.py", "writer.py", "tests/test_parser.py"):
        file = machine.project / name
        file.parent.mkdir(exist_ok=True)
        file.touch()
    async with person(machine, monkeypatch, [stories.SETTLED]) as who:
        await who.reads(stories.SETTLED)
        await who.write("/")
        await who.sees("/agent")
        await who.take("completion-commands")
        await who.press("backspace")
        await who.write("see @par")
        await who.sees("tests/test_parser.py")
        await who.take("completion-files")
        who.box.text = "!git status"
        await who.take("shell")
        who.box.text = "a line\nanother\nand a third"
        await who.take("prompt-of-several-lines")


# -- cards -----------------------------------------------------------------------------------------


async def test_cards(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has_claude()
    async with person(machine, monkeypatch, [stories.DIFF, stories.SETTLED]) as who:
        for line, seen in (
            ("/help", "Commands and keys"),
            ("/status claude", "sign in here with /login claude"),
            ("/models", "select one with /model NAME"),
            ("/policy Bash git push", "/policy Bash git push"),
            ("/nonsense", "Error"),
        ):
            await who.reads(stories.SETTLED)
            await who.run_command(line, seen)
            await who.take("card-" + line.split()[0][1:])
        await who.reads(stories.DIFF)
        await who.run_command("/cost", "Usage")
        await who.take("card-cost")
        await who.reads(stories.DIFF)
        await who.run_command("/diff", "in turn 1")
        await who.take("card-diff")


# -- the branch ------------------------------------------------------------------------------------


async def test_the_breadcrumb(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    (machine.home / ".gitconfig").write_text('[protocol "file"]\n\tallow = always\n')
    gh = GhStandIn(machine.home / "gh")
    monkeypatch.setenv("PATH", str(gh.folder), prepend=":")
    gh.answer("repo", "view", stdout=(RECORDINGS / "repo_view.json").read_text())
    gh.shows("pr_approved")
    root = machine.home.parent / "work"
    root.mkdir()
    git = git_in(root)
    start_repository(root, git)
    publish(root, git, machine.home / "hub.git", own_commit=True)
    async with person(machine, monkeypatch, folder=root) as who:
        bar = who.app.query_one(BreadcrumbBar)
        for place in ("top", "bottom", "left", "right"):
            bar.place(place)
            await who.sees("APPROVED")
            await who.take(f"breadcrumb-{place}")
        bar.place("top")
        await who.sees("APPROVED")
        await who.take("breadcrumb-light", theme="tillerman-light")
        await who.take("breadcrumb-narrow", sizes=NARROW)
        await who.press("f2")
        await who.until(lambda: isinstance(who.app.screen, Confirmation))
        await who.take("breadcrumb-merge")
        await who.press("n")
        gh.shows("pr_ci_failing")
        assert bar.repository
        bar.repository.refresh()
        await who.sees("CI FAILING")
        await who.press("f2")
        await who.until(lambda: isinstance(who.app.screen, Confirmation))
        await who.take("breadcrumb-fix")
        await who.press("n")
