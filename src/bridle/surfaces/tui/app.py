"""The terminal interface: sessions as tabs, drawn from their logs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher, Footer

from bridle.surfaces.tui.prompt_box import PromptBox
from bridle.surfaces.tui.session_pane import SessionPane
from bridle.surfaces.tui.status_bar import StatusBar

if TYPE_CHECKING:
    from textual.driver import Driver

    from bridle.app import Harness


class BridleApp(App[int]):
    TITLE = "bridle"
    CSS = """
    ContentSwitcher { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel_turn", "Cancel", id="cancel"),
        Binding("ctrl+q", "leave", "Quit", id="quit", priority=True),
    ]

    def __init__(
        self, cwd: Path, session: str | None = None, wishes: dict[str, Any] | None = None
    ) -> None:
        super().__init__()
        self._cwd = cwd
        self._session = session
        self._wishes = wishes or {}
        self._harness: Harness | None = None
        self._leaving = asyncio.Event()
        self._open = asyncio.Event()

    def get_driver_class(self) -> type[Driver]:
        """One that sleeps while nothing happens, where that is known how."""
        found = super().get_driver_class()
        if found.__name__ != "LinuxDriver":
            return found
        from bridle.surfaces.tui.driver import QuietDriver

        return QuietDriver

    def compose(self) -> ComposeResult:
        with ContentSwitcher(initial="pane-1"):
            yield SessionPane(self._cwd, id="pane-1")
        yield StatusBar()
        yield Footer()

    def on_mount(self) -> None:
        self.pane.box.focus()
        self.call_after_refresh(self.run_worker, self._serve(), exclusive=True, group="harness")

    # -- the harness -------------------------------------------------------------------------------

    async def _serve(self) -> None:
        """Opens the harness once the first picture is on the screen, and keeps it to the end."""
        import bridle
        from bridle.surfaces.tui.channel import Channel

        async with bridle.open(cwd=self._cwd) as harness:
            self._harness = harness
            row = harness.find(self._session) if self._session else None
            self.pane.begin(Channel(harness, self._cwd, row, **self._wishes))
            self._open.set()
            await self._leaving.wait()
        self.exit(0)

    async def action_leave(self) -> None:
        self._leaving.set()

    # -- panes -------------------------------------------------------------------------------------

    @property
    def pane(self) -> SessionPane:
        """The one that is seen."""
        current = self.query_one(ContentSwitcher).visible_content
        assert isinstance(current, SessionPane)
        return current

    async def on_prompt_box_submitted(self, message: PromptBox.Submitted) -> None:
        pane = self.pane
        await self._open.wait()
        if message.text.startswith("!"):
            pane.shell(message.text)
        else:
            pane.prompt(message.text, message.files, message.when_busy)

    def action_cancel_turn(self) -> None:
        self.pane.cancel()

    def on_session_pane_changed(self, message: SessionPane.Changed) -> None:
        if message.pane is self.pane:
            self.query_one(StatusBar).show(message.pane.standing())
