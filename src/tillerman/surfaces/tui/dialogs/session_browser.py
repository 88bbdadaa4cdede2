"""Session browser: list, search, resume, fork, rename, delete and export sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from tillerman.core.errors import TillermanError, UsageError
from tillerman.surfaces.rendering import formatting, tables
from tillerman.surfaces.tui.bars.key_bar import KeyLine
from tillerman.surfaces.tui.dialogs.export_dialog import ENDINGS, write_into
from tillerman.surfaces.tui.dialogs.picker import PickerRow, Rows, quiet_input
from tillerman.surfaces.tui.session_query import SessionHit, SessionQuery

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness
    from tillerman.store.session_row import SessionRow

PAUSE = 0.05  # seconds to debounce the search
AHEAD = 40  # rows below the highlight that are loaded in advance
HEAD = ("WHEN", "AGENT", "TURNS", "COST")
WIDTHS = (6, 9, 5, 7)  # cells of each
BRIEF = 60  # columns; below this only the first fact is shown
STATE = 9  # cells of the longest state
_TONES = {
    "approval": "warn",
    "running": "warn",
    "elsewhere": "warn",
    "here": "good",
    "failed": "bad",
}


class SessionBrowser(ModalScreen["SessionRow | None"]):
    """Returns the session to resume, or None. `here` are the sessions open in tabs."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fork", "Fork", id="sessions-fork"),
        Binding("r", "rename", "Rename", id="sessions-rename"),
        Binding("d", "delete", "Delete", id="sessions-delete"),
        Binding("e", "export", "Export", id="sessions-export"),
        Binding("a", "folders", "All", id="sessions-folders"),
        Binding("slash", "search", "Search", id="sessions-search"),
        Binding("escape", "back", "Close", id="sessions-close"),
        Binding("up", "move('cursor_up')", "Up", id="sessions-up", show=False),
        Binding("down", "move('cursor_down')", "Down", id="sessions-down", show=False),
    ]
    DEFAULT_CSS = """
    SessionBrowser { background: $background; layout: vertical; }
    SessionBrowser #head { height: 1; background: $panel; padding: 0 1; }
    SessionBrowser #heading {
        width: 1fr; color: $text-primary; text-style: bold;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    SessionBrowser #count { width: auto; color: $text-muted; }
    SessionBrowser #search { height: 1; border: none; padding: 0 1; background: $boost; }
    SessionBrowser #columns { height: 1; color: $text-disabled; }
    SessionBrowser Rows { height: 1fr; }
    SessionBrowser #ask { height: 1; display: none; background: $panel; }
    SessionBrowser #ask.-open { display: block; }
    SessionBrowser #question { width: auto; padding: 0 1; color: $text-warning; }
    SessionBrowser #answer { width: 1fr; height: 1; border: none; padding: 0; }
    SessionBrowser #told { height: auto; max-height: 4; padding: 0 1; color: $text-muted; }
    """

    def __init__(self, harness: Harness, folder: Path, here: Collection[str] = ()) -> None:
        super().__init__()
        self._harness = harness
        self._query_page = SessionQuery(harness.sessions)
        self._folder = folder
        self._here = frozenset(here)
        self._everywhere = False
        self._shown: list[SessionHit] = []
        self._whole = False  # all rows are loaded
        self._growing = False
        self._answered: Callable[[str], None] | None = None  # callback of the open question
        self.list = Rows()

    def compose(self) -> ComposeResult:
        with Horizontal(id="head"):
            yield Static("", id="heading", markup=False)
            yield Static("", id="count", markup=False)
        yield quiet_input("/ to search all messages", id="search")
        yield Static("", id="columns", markup=False)
        yield self.list
        with Horizontal(id="ask"):
            yield Static("", id="question", markup=False)
            yield quiet_input("", id="answer")
        yield Static("", id="told", markup=False)
        yield KeyLine()

    def on_mount(self) -> None:
        self.list.focus()
        self._load()

    def on_resize(self) -> None:
        """Gives the titles the width that the other columns leave."""
        widths = self._widths
        taken = sum(widths) + 2 * len(widths) + STATE + 2 + 5
        title = max(12, self.size.width - taken)
        self.list.columns = (title, STATE)
        head = f"{'':{title + 5}}{'STATE':{STATE}}  "
        self.query_one("#columns", Static).update(head + _columns(HEAD, widths).plain)
        self.list.fill([self._row(one) for one in self._shown])

    # -- list --------------------------------------------------------------------------------------

    @property
    def _widths(self) -> Sequence[int]:
        return WIDTHS if self.size.width >= BRIEF else WIDTHS[:1]

    @property
    def _query(self) -> str:
        return self.query_one("#search", Input).value.strip()

    def _load(self, highlight: str | None = None) -> None:
        """Reloads the list; a running load is cancelled."""
        where = "all folders" if self._everywhere else formatting.one_line(str(self._folder))
        self.query_one("#heading", Static).update(f"Sessions of {where}")
        self._fill(highlight)

    @work(group="list", exclusive=True)
    async def _fill(self, highlight: str | None) -> None:
        query, folder = self._query, None if self._everywhere else self._folder
        try:
            if query:
                await asyncio.sleep(PAUSE)
                found, self._whole = await asyncio.to_thread(self._query_page.search, query, folder)
            else:
                found, self._whole = await asyncio.to_thread(self._query_page.page, folder)
        except TillermanError as error:
            self._complain(error)
            return
        self._shown = found
        first = highlight or (found[0].row.id if found and query else None)
        self.list.fill([self._row(one) for one in found], highlight=first)
        self._count()
        if not found:
            where = "" if self._everywhere else " in this folder; press a for all folders"
            self.report(f"nothing found{where}" if query else f"no sessions{where}")

    async def _grow(self) -> None:
        folder = None if self._everywhere else self._folder
        try:
            page = self._query_page.page
            found, self._whole = await asyncio.to_thread(page, folder, len(self._shown))
        except TillermanError as error:
            self._complain(error)
            return
        finally:
            self._growing = False
        known = {one.row.id for one in self._shown}
        fresh = [one for one in found if one.row.id not in known]
        self._shown += fresh
        self.list.more([self._row(one) for one in fresh])
        self._count()

    def _count(self) -> None:
        more = "" if self._whole else "+"
        self.query_one("#count", Static).update(f"{len(self._shown)}{more}")

    def _row(self, found: SessionHit) -> PickerRow:
        row = found.row
        state = self._state(found)
        cost = formatting.money(row.cost_usd) if row.cost_usd is not None else ""
        when = formatting.ago(row.updated_at).removesuffix(" ago").removeprefix("just ")
        facts = (when, formatting.one_line(row.agent, WIDTHS[1]), str(row.turns), cost)
        below = None
        if any(found.snippet):
            parts = [
                Content(part).stylize("bold $text-accent" if number % 2 else "$text-muted")
                for number, part in enumerate(found.snippet)
            ]
            below = Content("").join([Content("    "), *parts])
        title = tables.what(row) or "(no messages)"
        if self._everywhere:
            title = f"{formatting.one_line(Path(row.cwd).name, 16)} › {title}"
        tone = _TONES.get(state, "")
        return PickerRow(row.id, title, state, _columns(facts, self._widths), tone, below=below)

    def _state(self, found: SessionHit) -> str:
        """State of a session, if it may require an action; otherwise empty."""
        if found.waits:
            return "approval"
        state = tables.session_state(found.row)
        if found.row.id in self._here:
            return "running" if state == "running" else "here"
        if state == "running":
            return "elsewhere"
        return state if state in ("failed", "cancelled", "open") else ""

    @property
    def _chosen(self) -> SessionRow | None:
        row = self.list.row
        return next((one.row for one in self._shown if row and one.row.id == row.key), None)

    # -- actions -----------------------------------------------------------------------------------

    def action_resume(self) -> None:
        if row := self._chosen:
            self.dismiss(row)

    def action_fork(self) -> None:
        if row := self._chosen:
            self._attempt(self._fork(row))

    async def _fork(self, row: SessionRow) -> None:
        self.dismiss(await self._harness.sessions.fork(row))

    def action_rename(self) -> None:
        if row := self._chosen:

            def named(title: str) -> None:
                self._attempt(self._rename(row, title))

            self._ask("title:", named, tables.what(row))

    async def _rename(self, row: SessionRow, title: str) -> None:
        await self._query_page.rename(row, title)
        self.report("")
        self._load(highlight=row.id)

    def action_delete(self) -> None:
        row = self._chosen
        if row is None:
            return
        if row.id in self._here:
            self.report("it is open in a tab: close the tab first")
            return
        name = formatting.one_line(tables.what(row), 36) or row.id

        def sure(word: str) -> None:
            if word.strip().lower() in ("y", "yes"):
                self._attempt(self._delete(row))
            else:
                self.report("nothing was deleted")

        self._ask(f"delete “{name}” and its {row.entries} entries permanently? y or n:", sure)

    async def _delete(self, row: SessionRow) -> None:
        at = self.list.highlighted or 0
        await self._harness.sessions.delete(row)
        self.report(f"deleted {row.id}")
        left = [one.row.id for one in self._shown if one.row.id != row.id]
        self._load(highlight=left[min(at, len(left) - 1)] if left else None)

    def action_export(self) -> None:
        if row := self._chosen:
            words = ", ".join(ENDINGS)

            def chosen(word: str) -> None:
                self._attempt(self._export(row, word.strip().lower() or "markdown"))

            self._ask(f"export as {words}:", chosen, "markdown")

    async def _export(self, row: SessionRow, word: str) -> None:
        format = next((one for one in ENDINGS if word and one.startswith(word)), None)
        if format is None:
            raise UsageError(
                f"unknown format {formatting.one_line(word)}: use {', '.join(ENDINGS)}",
                hint="the beginning of its name is enough",
            )
        file = await asyncio.to_thread(
            write_into, self._harness.sessions.log, row, format, self._folder
        )
        self.report(f"exported to {formatting.one_line(str(file))}")

    def action_folders(self) -> None:
        self._everywhere = not self._everywhere
        self.report("")
        self._load()

    def _attempt(self, work: Coroutine[Any, Any, None]) -> None:
        async def attempt() -> None:
            try:
                await work
            except TillermanError as error:
                self._complain(error)

        self.run_worker(attempt(), group="done")

    # -- messages and questions --------------------------------------------------------------------

    def report(self, text: str) -> None:
        self.query_one("#told", Static).update(text)

    def _complain(self, error: TillermanError) -> None:
        lines: Sequence[str] = (error.message, error.hint or "")
        self.report("\n".join(formatting.one_line(line) for line in lines if line))

    def _ask(self, question: str, answered: Callable[[str], None], value: str = "") -> None:
        self._answered = answered
        self.query_one("#question", Static).update(question)
        self.query_one("#ask").add_class("-open")
        box = self.query_one("#answer", Input)
        box.value = value
        box.cursor_position = len(value)
        self.set_focus(box)

    def _asked(self) -> None:
        self._answered = None
        self.query_one("#ask").remove_class("-open")
        self.set_focus(self.list)

    # -- keys and mouse ----------------------------------------------------------------------------

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.input.id == "search":
            self.report("")
            self._load()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.input.id == "search":
            self.action_resume()
        elif answered := self._answered:
            self._asked()
            answered(event.value)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_resume()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        near = event.option_index + AHEAD >= len(self._shown)
        if near and not self._whole and not self._growing and not self._query:
            self._growing = True
            self.run_worker(self._grow(), group="list")

    def action_move(self, how: str) -> None:
        getattr(self.list, f"action_{how}")()

    def action_search(self) -> None:
        self.set_focus(self.query_one("#search", Input))

    def action_back(self) -> None:
        """Closes the question, else clears or leaves the search, else closes the browser."""
        search = self.query_one("#search", Input)
        if self._answered:
            self._asked()
        elif search.value:
            search.value = ""
            self.set_focus(self.list)
        elif search.has_focus:
            self.set_focus(self.list)
        else:
            self.dismiss(None)


def _columns(cells: Sequence[str], widths: Sequence[int]) -> Content:
    """Aligns the first two columns left, the others right."""
    parts = [
        cell.rjust(width) if at > 1 else cell.ljust(width)
        for at, (cell, width) in enumerate(zip(cells, widths, strict=False))
    ]
    return Content("  ".join(parts))
