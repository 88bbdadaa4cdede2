"""The Textual app: opens the harness, shows sessions in tabs, handles keys, signals and quit."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.screen import ModalScreen

from tillerman.core.errors import TillermanError
from tillerman.surfaces.tui import picker_actions, themes
from tillerman.surfaces.tui.bars.branch_bar import BreadcrumbBar, BreadcrumbFrame
from tillerman.surfaces.tui.bars.key_bar import KeyLine
from tillerman.surfaces.tui.bars.status_bar import StatusBar
from tillerman.surfaces.tui.bars.tab_bar import Tab, TabBar
from tillerman.surfaces.tui.keys.app_keys import KEYS, OF_PANES
from tillerman.surfaces.tui.pane_switcher import PaneSwitcher
from tillerman.surfaces.tui.prompt.cloud_sign import meant
from tillerman.surfaces.tui.prompt.prompt_box import PromptBox
from tillerman.surfaces.tui.session_pane import SessionPane
from tillerman.surfaces.tui.tab_states import Tabs
from tillerman.surfaces.tui.terminal.output_sanitizer import OutputSanitizer

if TYPE_CHECKING:
    from textual.command import Provider
    from textual.driver import Driver
    from textual.theme import Theme

    from tillerman.config import Config
    from tillerman.harness.agent_admin import AgentStatus
    from tillerman.harness.harness import Harness
    from tillerman.store.session_row import SessionRow
    from tillerman.surfaces.tui.conversation.welcome import Welcome

NARROWEST = 16  # cells
_OF_ONE = ("agent", "model", "mode")  # options that are not copied to other sessions


def _palette() -> type[Provider]:
    from tillerman.surfaces.tui.dialogs.command_palette import TillermanCommands

    return TillermanCommands


class TillermanApp(App[int]):
    TITLE = "tillerman"
    CSS = """
    ContentSwitcher { height: 1fr; }
    CommandPalette SearchIcon { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*KEYS]
    COMMANDS: ClassVar[set[Any]] = {_palette}

    def __init__(
        self, cwd: Path, session: str | None = None, requested: dict[str, Any] | None = None
    ) -> None:
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self._cwd = cwd
        self._session = session
        self._requested = requested or {}
        self._harness: Harness | None = None
        self.failure: TillermanError | None = None  # why the harness could not be opened
        self._leaving = asyncio.Event()
        self._open = asyncio.Event()
        self._tabs = Tabs()
        self._asked_to_leave = False
        self._code = 0  # exit code
        self._closing_panes: set[asyncio.Task[None]] = set()
        self.reports: dict[str, AgentStatus] = {}  # agent status by name, as far as queried
        self._welcome: Welcome | None = None  # set when the harness is open
        themes.apply_theme(self, themes.usual(cwd))
        self._filters.insert(0, OutputSanitizer())

    def get_driver_class(self) -> type[Driver]:
        """Uses `QuietDriver`, which does not poll, instead of Textual's `LinuxDriver`."""
        found = super().get_driver_class()
        if found.__name__ != "LinuxDriver":
            return found
        from tillerman.surfaces.tui.terminal.quiet_driver import QuietDriver

        return QuietDriver

    def _fatal_error(self) -> None:
        """Like Textual's, but without local variables, which may contain untrusted text."""
        from rich.segment import Segments
        from rich.traceback import Traceback

        trace = Traceback(show_locals=False, width=None)
        self._exit_renderables.append(Segments(self.console.render(trace, self.console.options)))
        self._close_messages_no_wait()

    def compose(self) -> ComposeResult:
        yield TabBar()
        with BreadcrumbFrame(), PaneSwitcher():
            yield SessionPane(self._cwd, id="pane-1")
        yield StatusBar()
        yield KeyLine({"cancel", "repo-action"})

    def on_resize(self, event: events.Resize) -> None:
        """Clamps the width, since layouts fail with zero cells; a narrower terminal is cropped."""
        width, height = event.size
        event.size = event.virtual_size = Size(max(width, NARROWEST), height)

    def on_mount(self) -> None:
        self.pane.box.focus()
        self.theme_changed_signal.subscribe(self, self._recolor)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        self._heed_signals()
        self.call_after_refresh(self.run_worker, self._serve(), exclusive=True, group="harness")

    # -- harness -----------------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            await self._keep_open()
        except TillermanError as error:
            self.failure = error
            self.exit(error.exit_code)

    async def _keep_open(self) -> None:
        """Opens the harness after the first frame and holds it open until the app exits."""
        import tillerman
        from tillerman.surfaces.tui.conversation.welcome import Welcome
        from tillerman.surfaces.tui.session_controller import SessionController

        async with tillerman.open(cwd=self._cwd) as harness:
            self._harness = harness
            self._apply_config(harness.config)
            row = harness.find(self._session) if self._session else None
            self._welcome = Welcome(self, harness, self._requested)
            search = self._welcome.begin(self._cwd) if row is None else None
            self.pane.begin(
                SessionController(harness, self._cwd, row, search=search, **self._requested)
            )
            self._open.set()
            self.query_one(BreadcrumbBar).begin(harness.config.screen.breadcrumb, self.pane.folder)
            await self._leaving.wait()
            await asyncio.gather(*self._closing_panes, return_exceptions=True)
        self.exit(self._code)

    async def opened(self) -> Harness:
        await self._open.wait()
        assert self._harness is not None
        return self._harness

    def _apply_config(self, config: Config) -> None:
        errs = themes.choose(self, config.screen.theme)
        if config.screen.keys:
            from tillerman.surfaces.tui.keys import keymap
            from tillerman.surfaces.tui.keys.focus_scopes import PLACES

            errs += keymap.problems(config.screen.keys, PLACES)
            self.set_keymap(config.screen.keys)
        if errs:
            from rich.text import Text

            from tillerman.surfaces.tui.conversation.blocks import CommandBlock

            self.pane.report(CommandBlock("Screen settings", Text("\n".join(errs), style="yellow")))

    def _recolor(self, theme: Theme) -> None:
        for pane in self.panes:
            pane.conversation.redraw()

    def _heed_signals(self) -> None:
        """SIGTERM and SIGHUP end the running sessions and exit; a second SIGTERM exits at once."""

        def end(number: int) -> None:
            self._code = 128 + number
            insists = self._leaving.is_set() and number == signal.SIGTERM  # SIGHUP may arrive twice
            if insists or not self._open.is_set():
                self.exit(self._code)
            self._leaving.set()

        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, end, number)

    async def action_leave(self) -> None:
        self.run_worker(self._leave(), group="leave")

    async def _leave(self) -> None:
        running = sum(map(self._runs_here, self.panes))
        if running and not self._asked_to_leave:
            self._asked_to_leave = True
            what = (
                "The agent is still working"
                if running == 1
                else f"{running} agents are still working"
            )
            sure = await picker_actions.sure(self, "Quit?", what, yes="cancel and quit")
            self._asked_to_leave = False
            if not sure:
                return
        self._leaving.set()

    # -- panes -------------------------------------------------------------------------------------

    @property
    def pane(self) -> SessionPane:
        """The visible pane."""
        return self._switcher.visible_pane

    @property
    def panes(self) -> list[SessionPane]:
        return self._switcher.panes

    @property
    def _switcher(self) -> PaneSwitcher:
        return self.query_one(PaneSwitcher)

    @property
    def folder(self) -> Path:
        """Working directory of the visible pane."""
        return self.pane.channel.cwd if self.pane.channel else self._cwd

    async def open_pane(self, row: SessionRow | None = None, **requested: Any) -> SessionPane:
        """Opens a session in a new tab, or switches to the tab that shows it.

        An empty tab is replaced.
        """
        from tillerman.surfaces.tui.session_controller import SessionController

        harness = await self.opened()
        assert self._welcome is not None
        if row and (shown := self._switcher.pane_of(row.id)):
            self.show_pane(shown.id or "")
            return shown
        usual = {
            name: self._requested[name] for name in self._requested if not (row and name in _OF_ONE)
        }
        channel = SessionController(
            harness, self._cwd, row, search=self._welcome.search, **(usual | requested)
        )
        before = self.pane
        pane = await self._switcher.add_pane(channel)
        self.show_pane(pane.id or "")
        if row is None:
            self._welcome.greet(pane)
        elif before.blank:
            await self._remove(before)
        return pane

    def show_pane(self, id: str) -> None:
        """Switches to a pane, unless it is closing."""
        if not self._switcher.has(id):
            return
        self._switcher.current = id
        self._tabs.mark(self.pane, seen=True)
        self.pane.take_focus()
        self.query_one(BreadcrumbBar).follow(self.pane.folder)
        self.query_one(StatusBar).show(self.pane.standing())
        self._show_keys()
        self._show_tabs()

    async def close_pane(self, pane: SessionPane) -> None:
        """Closes a tab. Sessions run here are ended; sessions run elsewhere are only detached."""
        if pane in self._switcher.closing or (pane.blank and len(self.panes) == 1):
            return
        self._switcher.closing.add(pane)
        try:
            await self._close(pane)
        finally:
            self._switcher.closing.discard(pane)

    async def _close(self, pane: SessionPane) -> None:
        if self._runs_here(pane):
            what = f"The agent is still working: {pane.titled}"
            if not await picker_actions.sure(self, "Close the tab?", what, yes="cancel and close"):
                return
        if pane is self.pane:
            if other := self._switcher.after_closing(pane):
                self.show_pane(other.id or "")
            else:
                await self.open_pane()
        await self._remove(pane)

    async def _remove(self, pane: SessionPane) -> None:
        """Removes the pane and closes its session in the background, as that may take a while."""
        if pane.channel:
            task = asyncio.create_task(pane.channel.close())
            self._closing_panes.add(task)
            task.add_done_callback(self._closing_panes.discard)
        await pane.remove()
        self._tabs.forget(pane)
        self._show_tabs()

    def tabs(self) -> list[Tab]:
        return self._tabs.of(self.panes, self.pane)

    def retitle(self) -> None:
        """Reloads the titles, since a session may have been renamed."""
        self._tabs.retitle()
        self._show_tabs()

    def _show_tabs(self) -> None:
        self.query_one(TabBar).show(self.tabs())

    def _runs_here(self, pane: SessionPane) -> bool:
        return bool(pane.transcript.busy and pane.channel and pane.channel.ours)

    def on_tab_bar_chosen(self, message: TabBar.Chosen) -> None:
        self.show_pane(message.pane)

    def action_help_quit(self) -> None:
        """The key that ends other programs; here it copies what is selected."""
        quits = [b.binding.key for b in self.active_bindings.values() if b.binding.id == "quit"]
        key = quits[0] if quits else "/quit"
        self.notify(f"{key} quits, escape cancels a turn", markup=False)

    def action_new_tab(self) -> None:
        self._attempt(self._new_tab(), "tabs")

    async def _new_tab(self) -> None:
        """Opens a tab with the agent of the visible session."""
        await self.opened()
        channel = self.pane.channel
        row = channel.row if channel else None
        if channel and row and row.agent != channel.requested.get("agent"):
            await self.open_pane(agent=row.agent, model=None, mode=None)
        else:
            await self.open_pane(**({**channel.requested} if channel else {}))

    def action_close_tab(self) -> None:
        self._attempt(self.close_pane(self.pane), "close")

    def action_next_tab(self) -> None:
        self.show_pane(self._switcher.neighbour(1).id or "")

    def action_previous_tab(self) -> None:
        self.show_pane(self._switcher.neighbour(-1).id or "")

    def action_go_to_tab(self, number: int) -> None:
        if number <= len(panes := self.panes):
            self.show_pane(panes[number - 1].id or "")

    # -- pickers -----------------------------------------------------------------------------------

    def action_pick_agent(self) -> None:
        self._attempt(picker_actions.agent(self), "choosing")

    def action_pick_model(self) -> None:
        self._attempt(picker_actions.model(self), "choosing")

    def action_pick_mode(self) -> None:
        self._attempt(picker_actions.mode(self), "choosing")

    def action_pick_approval(self) -> None:
        self._attempt(picker_actions.approval(self), "choosing")

    def action_next_approval(self) -> None:
        self._attempt(picker_actions.next_approval(self), "approval")

    def action_pick_theme(self) -> None:
        self._attempt(picker_actions.theme(self), "choosing")

    def action_browse_sessions(self) -> None:
        self._attempt(picker_actions.session(self), "choosing")

    def action_mcp_panel(self) -> None:
        self._attempt(picker_actions.servers(self), "choosing")

    def _attempt(self, work: Coroutine[Any, Any, None], group: str) -> None:
        async def attempt() -> None:
            try:
                await work
            except Exception as error:
                self.pane.complain(error)

        self.run_worker(attempt(), group=group, exclusive=group == "choosing")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disables pane keys in dialogs, and closing a tab while ctrl+w deletes a word."""
        if action in OF_PANES and isinstance(self.screen, ModalScreen):
            return False
        if action == "close_tab":
            return not (self.pane.box.has_focus and self.pane.box.text)
        return True

    # -- prompts and commands ----------------------------------------------------------------------

    def on_prompt_box_submitted(self, message: PromptBox.Submitted) -> None:
        """Sends the prompt to the session it was typed for, even if another is visible now."""
        pane = next((pane for pane in self.panes if pane.box is message.box), None)
        if pane:
            self.run_worker(self._take(pane, message), group="said")

    async def _take(self, pane: SessionPane, message: PromptBox.Submitted) -> None:
        """Waits for the harness without blocking key input."""
        await self._open.wait()
        text = meant(message.text)
        if text.startswith("/") and pane.is_command(text):
            pane.box.attachments.add(message.files)
            self.show_pane(pane.id or "")
            self.command(text)
        elif text.startswith("!"):
            pane.box.attachments.add(message.files)
            pane.shell(text)
        else:
            bare = text.lstrip()  # a space before the sign: for the agent
            pane.prompt(bare if bare[:1] in "/&" else text, message.files, message.when_busy)

    def command(self, text: str) -> None:
        from tillerman.surfaces.tui.commands import carry_out

        self.run_worker(carry_out(self, text), group="commands")

    def action_cancel_turn(self) -> None:
        self.pane.cancel()

    # -- repository --------------------------------------------------------------------------------

    @on(BreadcrumbBar.ActionWanted)
    def action_repo_action(self) -> None:
        self.query_one(BreadcrumbBar).act(self.pane)

    @on(BreadcrumbBar.Settled)
    def _show_keys(self) -> None:
        pointless = set() if self.pane.busy else {"cancel"}
        if not self.query_one(BreadcrumbBar).display:
            pointless.add("repo-action")
        self.query_one(KeyLine).leave_out(pointless)

    def action_repo_link(self) -> None:
        self.query_one(BreadcrumbBar).copy_link()

    def on_session_pane_waits(self, message: SessionPane.Waits) -> None:
        """Notifies only if the user does not see the pane."""
        if self._harness and not (self.app_focus and message.pane is self.pane):
            from tillerman.surfaces.tui.terminal.bell import call

            call(self, self._harness.config.screen.notify, message.title)

    def on_session_pane_changed(self, message: SessionPane.Changed) -> None:
        if self._leaving.is_set():
            return  # its session may be closed already
        self._tabs.mark(message.pane, seen=message.pane is self.pane)
        if len(self.panes) > 1:
            self._show_tabs()
        if message.pane is self.pane:
            self.query_one(BreadcrumbBar).follow(message.pane.folder)
            self.query_one(StatusBar).show(message.pane.standing())
            self._show_keys()
