"""Sessions are found by their text, and resumed, forked, renamed, deleted, exported."""

from __future__ import annotations

import time
from pathlib import Path

import apsw
import pytest

from tests.surfaces.tui.desk import Desk, desk
from tests.surfaces.tui.machine import Machine
from tillerman.harness.harness import Harness
from tillerman.store.session_row import SessionRow, insert
from tillerman.surfaces.tui.dialogs.session_browser import SessionBrowser
from tillerman.surfaces.tui.session_query import PAGE, SessionQuery

SAYS = [[{"say": "You said: {prompt}"}]]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


async def _have(who: Desk, *prompts: str) -> None:
    """Creates sessions of this folder, none of them open."""
    for prompt in prompts:
        who.pane.prompt(prompt)
        await who.until(lambda: who.pane.channel and who.pane.channel.id)
        await who.rests(1)
        await who.press("ctrl+w")
        await who.until(lambda: who.pane.blank)
    await who.until(lambda: not who.app._closing_panes)


async def _browse(who: Desk) -> SessionBrowser:
    await who.press("ctrl+l")
    await who.until(lambda: isinstance(who.app.screen, SessionBrowser))
    browser = who.app.screen
    assert isinstance(browser, SessionBrowser)
    await who.until(lambda: browser._whole or browser.list.rows)
    return browser


def _titles(browser: SessionBrowser) -> list[str]:
    return [row.title for row in browser.list.rows]


def _closed(who: Desk) -> bool:
    return not isinstance(who.app.screen, SessionBrowser)


async def test_the_newest_session_is_first_and_enter_resumes_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        await _have(who, "mend the fence", "paint the barn")
        browser = await _browse(who)
        assert _titles(browser) == ["paint the barn", "mend the fence"]
        head, first = who.seen().splitlines()[2:4]
        assert head.index("AGENT") == first.index("mock")
        await who.press("down", "enter")
        await who.until(lambda: _closed(who))
        await who.sees("You said: mend the fence")
        await who.write("again")
        await who.press("enter")
        await who.rests(2)
        browser = await _browse(who)
        assert _titles(browser) == ["mend the fence", "paint the barn"]
        assert browser.list.rows[0].state == "here"
        await who.press("escape")


async def test_text_finds_a_session_with_the_line_it_is_in(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        await _have(who, "mend the fence", "paint the barn")
        browser = await _browse(who)
        await who.press("slash")
        await who.write("fen")
        await who.until(lambda: _titles(browser) == ["mend the fence"])
        below = browser.list.rows[0].below
        assert below is not None
        assert "the fence" in below.plain
        await who.write("xyz")
        await who.sees("nothing found in this folder; press a for all folders")
        await who.press("escape")
        await who.until(lambda: len(_titles(browser)) == 2)
        await who.press("slash")
        await who.write("barn")
        await who.until(lambda: _titles(browser) == ["paint the barn"])
        await who.press("enter")
        await who.sees("You said: paint the barn")


async def test_a_session_is_renamed_in_place_and_found_by_its_title(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        await _have(who, "mend the fence", "paint the barn")
        browser = await _browse(who)
        await who.press("down", "r")
        await who.sees("title: mend the fence")
        await who.press("ctrl+u")
        await who.write("Zaun")
        await who.press("enter")
        await who.until(lambda: _titles(browser) == ["paint the barn", "Zaun"])
        assert browser.list.row
        assert browser.list.row.title == "Zaun"  # it is still the one that is looked at
        await who.press("slash")
        await who.write("zau")
        await who.until(lambda: _titles(browser) == ["Zaun"])
        await who.press("escape", "r")
        await who.press("ctrl+u", "enter")
        await who.sees("the title is empty")
        await who.press("escape")


async def test_a_fork_is_opened_in_a_tab_and_the_first_one_stays(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        await _have(who, "mend the fence")
        await _browse(who)
        await who.press("f")
        await who.until(lambda: _closed(who))
        await who.sees("You said: mend the fence")
        rows = (await who.app.opened()).sessions.catalog.list()
        assert len(rows) == 2
        assert who.pane.channel
        forked = (await who.app.opened()).find(who.pane.channel.id or "")
        assert forked.forked_from in {row.id for row in rows}


async def test_a_session_is_deleted_only_after_a_confirmation(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        await _have(who, "mend the fence", "paint the barn")
        browser = await _browse(who)
        await who.press("d")
        await who.sees("delete “paint the barn”")
        await who.press("n", "enter")
        await who.sees("nothing was deleted")
        await who.press("d", "escape")
        await who.press("d", "y", "enter")
        await who.until(lambda: _titles(browser) == ["mend the fence"])
        await who.press("escape")


async def test_a_session_of_a_tab_is_not_deleted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        who.pane.prompt("hello")
        await who.rests(1)
        browser = await _browse(who)
        await who.press("d")
        await who.sees("it is open in a tab: close the tab first")
        assert len(_titles(browser)) == 1
        await who.press("escape")


async def test_a_session_is_exported_to_a_new_file_whose_path_is_shown(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS, size=(160, 30)) as who:
        await _have(who, "mend the fence")
        browser = await _browse(who)
        session = browser.list.rows[0].key
        await who.press("e", "enter")
        file = machine.project / f"session-{session}.md"
        await who.sees(f"exported to {file}")
        assert "mend the fence" in file.read_text()
        await who.press("e", "enter")
        second = machine.project / f"session-{session}-2.md"
        await who.sees(f"exported to {second}")
        await who.press("e", "ctrl+u")
        await who.write("html")
        await who.press("enter")
        await who.sees(".html")
        await who.press("e", "ctrl+u")
        await who.write("pdf")
        await who.press("enter")
        await who.sees("unknown format pdf: use markdown, html, jsonl")
        await who.press("escape")


async def test_other_folders_are_shown_by_a_key(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        await _have(who, "mend the fence")
        harness = await who.app.opened()
        row = SessionRow(
            id="elsewhere1", agent="mock", cwd="/srv/far", created_at="2026-01-01T00:00:00Z",
            title="far away", status="failed",
        )  # fmt: skip
        harness.sessions.catalog.create(row).result(5)
        browser = await _browse(who)
        assert _titles(browser) == ["mend the fence"]
        await who.press("a")
        await who.until(lambda: _titles(browser) == ["far › far away", "project › mend the fence"])
        assert browser.list.rows[0].state == "failed"
        await who.press("a")
        await who.until(lambda: _titles(browser) == ["mend the fence"])
        await who.press("escape")


async def test_a_session_that_needs_approval_is_marked(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = [[{"run": "touch made"}]]
    async with desk(machine.home, machine.project, monkeypatch, asks) as who:
        who.pane.prompt("make it")
        await who.until(lambda: who.pane.transcript.requests)
        browser = await _browse(who)
        assert [row.state for row in browser.list.rows] == ["approval"]
        await who.press("escape")
        await who.asked("[n] deny")
        await who.press("n")
        await who.rests(1)


# -- very many -------------------------------------------------------------------------------------


def _fill(harness: Harness, folder: Path, count: int) -> None:
    def work(connection: apsw.Connection) -> None:
        for number in range(count):
            row = SessionRow(
                id=f"s{number:09d}", agent="mock", cwd=str(folder), turns=3,
                created_at="2026-01-01T00:00:00Z", title=f"session number {number}",
            )  # fmt: skip
            insert(connection, row)

    harness.sessions._database.write(work).result(60)


async def test_ten_thousand_sessions_are_shown_by_pages(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        harness = await who.app.opened()
        _fill(harness, machine.project, 10_000)
        before = time.monotonic()
        browser = await _browse(who)
        await who.sees("session number 9999")
        assert time.monotonic() - before < 2
        assert len(browser.list.rows) == PAGE
        await who.sees(f"{PAGE}+")
        await who.press("end")
        await who.until(lambda: len(browser.list.rows) > PAGE)
        assert browser.list.row
        assert browser.list.row.title == f"session number {10_000 - PAGE}"
        before = time.monotonic()
        await who.press("slash")
        await who.write("number 77")
        await who.until(lambda: _titles(browser)[:1] == ["session number 7799"])
        assert time.monotonic() - before < 3
        await who.press("escape", "escape")


async def test_the_end_of_the_list_is_recognized(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(machine.home, machine.project, monkeypatch, SAYS) as who:
        harness = await who.app.opened()
        _fill(harness, machine.project, PAGE + 1)
        shelf = SessionQuery(harness.sessions)
        first, whole = shelf.page(machine.project)
        assert (len(first), whole) == (PAGE, False)
        rest, whole = shelf.page(machine.project, PAGE)
        assert ([found.row.title for found in rest], whole) == (["session number 0"], True)
