"""Cloud agents in the terminal interface: `&text`, the panel, the count in the status bar."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.stand_ins.cursor_cloud import KEY, CursorCloud, Fault, cursor_cloud
from tests.surfaces.tui.desk import desk
from tests.surfaces.tui.machine import Machine
from tillerman.surfaces.tui.dialogs.cloud_panel import CloudPanel
from tillerman.surfaces.tui.dialogs.confirmation import Confirmation

REPOSITORY = "https://github.com/your-org/your-repo"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.fixture
async def cloud(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CursorCloud]:
    async with cursor_cloud() as running:
        machine.config(f'[agents.cursor-cloud]\nbase_url = "{running.url}"\n')
        monkeypatch.setenv("CURSOR_API_KEY", KEY)
        yield running


def git(machine: Machine, *words: str) -> None:
    subprocess.run(["git", *words], cwd=machine.project, check=True, capture_output=True)


@pytest.fixture
def pushed(machine: Machine) -> Machine:
    """A branch that is pushed."""
    hub = machine.home / "hub.git"
    (machine.home / ".gitconfig").write_text(
        "[user]\n\tname = Tester\n\temail = tester@example.org\n"
        f'[url "{hub}"]\n\tinsteadOf = {REPOSITORY}\n'
    )
    git(machine, "init", "--quiet", "--bare", "--initial-branch=main", str(hub))
    git(machine, "init", "--quiet", "--initial-branch=main")
    git(machine, "commit", "--quiet", "--allow-empty", "-m", "start")
    git(machine, "remote", "add", "origin", REPOSITORY)
    git(machine, "push", "--quiet", "--set-upstream", "origin", "main")
    return machine


def opened(who: Any) -> CloudPanel:
    assert isinstance(who.app.screen, CloudPanel)
    return who.app.screen


def states(who: Any) -> list[str]:
    return [row.state for row in opened(who).rows.rows]


async def panel(who: Any) -> None:
    await who.write("/cloud")
    await who.press("escape", "enter")
    await who.until(lambda: isinstance(who.app.screen, CloudPanel))


async def test_a_line_with_an_ampersand_launches_an_agent_from_this_branch(
    pushed: Machine, cloud: CursorCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.hold = True
    async with desk(pushed.home, pushed.project, monkeypatch, size=(120, 30)) as who:
        await who.write("&Add a README")
        await who.sees("launches a cloud agent")
        await who.press("enter")
        await who.sees("Cloud agent on main")
        [agent] = cloud.agents.values()
        assert agent.body["prompt"] == {"text": "Add a README"}
        assert agent.body["repos"] == [{"url": REPOSITORY, "startingRef": "main"}]
        await who.sees(agent.id)
        await who.sees("1 in the cloud")
        assert who.pane.transcript.turns == []


async def test_what_the_cloud_would_not_see_is_asked_about_first(
    pushed: Machine, cloud: CursorCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(pushed, "commit", "--quiet", "--allow-empty", "-m", "ours")
    async with desk(pushed.home, pushed.project, monkeypatch, size=(120, 30)) as who:
        await who.write("&Add a README")
        await who.press("enter")
        await who.until(lambda: isinstance(who.app.screen, Confirmation))
        await who.sees("1 commit is not pushed")
        await who.press("n")
        await who.until(lambda: who.box.text == "&Add a README")
        assert not cloud.agents
        await who.press("enter")
        await who.until(lambda: isinstance(who.app.screen, Confirmation))
        await who.press("y")
        await who.until(lambda: len(cloud.agents) == 1)


async def test_a_branch_that_is_not_pushed_is_not_launched_from(
    pushed: Machine, cloud: CursorCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(pushed, "switch", "--quiet", "-c", "feature")
    async with desk(pushed.home, pushed.project, monkeypatch, size=(120, 30)) as who:
        await who.write("&Add a README")
        await who.press("enter")
        await who.sees("branch feature is not pushed to origin")
        await who.sees("git push -u origin feature")
        assert not cloud.agents


async def test_a_space_before_the_ampersand_sends_it_to_the_agent(
    machine: Machine, cloud: CursorCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch) as who:
        await who.write(" &more")
        await who.press("enter")
        await who.sees("You said: &more")
        assert not cloud.asked


async def test_the_panel_shows_live_states_follows_up_stops_and_deletes(
    machine: Machine, cloud: CursorCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud._launch({"prompt": {"text": "x"}, "agentId": "bc-1", "name": "Add README"})
    run = cloud.agents["bc-1"].runs[0]
    async with desk(machine.home, machine.project, monkeypatch, size=(120, 30)) as who:
        await panel(who)
        await who.until(lambda: states(who) == ["● working"])
        run.status = "FINISHED"
        await who.until(lambda: states(who) == ["✓ finished"])
        addresses: list[str] = []
        monkeypatch.setattr(who.app, "open_url", addresses.append)
        await who.press("p")
        await who.until(lambda: addresses == [f"{REPOSITORY}/pull/123"])
        await who.press("f")
        await who.write("stop foxes")
        await who.press("enter")
        await who.until(lambda: states(who) == ["● working"])
        assert cloud.agents["bc-1"].runs[1].prompt == {"text": "stop foxes"}
        await who.press("s")
        await who.until(lambda: states(who) == ["■ cancelled"])
        await who.press("x")
        await who.until(lambda: isinstance(who.app.screen, Confirmation))
        await who.press("y")
        await who.sees("deleted")
        assert (states(who), cloud.deleted) == ([], ["bc-1"])
        await who.press("escape")
        await who.until(lambda: not isinstance(who.app.screen, CloudPanel))


async def test_an_agent_of_the_panel_is_opened_as_a_session(
    machine: Machine, cloud: CursorCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud._launch({"prompt": {"text": "x"}, "agentId": "bc-1", "name": "Add README"})
    cloud.agents["bc-1"].runs[0].status = "FINISHED"
    async with desk(machine.home, machine.project, monkeypatch, size=(120, 30)) as who:
        await panel(who)
        await who.until(lambda: states(who) == ["✓ finished"])
        await who.press("o")
        await who.sees("I'll update the README now.")
        first = who.pane.channel and who.pane.channel.id
        await panel(who)
        await who.until(lambda: states(who) == ["✓ finished"])
        await who.press("enter")
        await who.until(lambda: not isinstance(who.app.screen, CloudPanel))
        assert who.pane.channel and who.pane.channel.id == first


async def test_an_error_is_shown_with_the_next_step(
    machine: Machine, cloud: CursorCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = b'{"error":"Unauthorized","message":"Invalid API key"}'
    cloud.fault = lambda _: Fault(status=401, body=body)
    async with desk(machine.home, machine.project, monkeypatch, size=(120, 30)) as who:
        await panel(who)
        await who.sees("Invalid API key")
        await who.sees("set CURSOR_API_KEY")
        assert KEY not in who.seen()
