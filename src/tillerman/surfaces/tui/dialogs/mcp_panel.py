"""MCP panel: servers of an agent, their tools, enable and disable."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static

from tillerman.core.agent_admin import McpServer
from tillerman.core.errors import TillermanError
from tillerman.harness.agent_admin import AgentAdmin
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.dialogs.picker import PickerRow, Rows
from tillerman.surfaces.tui.keys import keymap

WELL = ("connected", "enabled", "ready", "ok")
ILL = ("fail", "error", "disconnected")


class McpPanel(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", id="mcp-close"),
        Binding("enter", "tools", "Tools", id="mcp-tools", show=False),
        Binding("e", "switch(True)", "Enable", id="mcp-enable"),
        Binding("d", "switch(False)", "Disable", id="mcp-disable"),
        Binding("r", "reload", "Refresh", id="mcp-reload"),
    ]
    DEFAULT_CSS = """
    McpPanel { align: center middle; background: $background 50%; }
    McpPanel > #frame {
        width: 92%; max-width: 110; height: auto; max-height: 92%;
        background: $surface; border: round $border; padding: 0 1;
        border-title-color: $text-primary; border-title-style: bold;
        border-subtitle-color: $text-muted;
    }
    McpPanel #servers { max-height: 40vh; }
    McpPanel #tools { max-height: 34vh; }
    McpPanel #tools:blur > .option-list--option-highlighted {
        background: transparent; color: $foreground;
    }
    McpPanel #tools-of { height: auto; padding: 0 1; margin-top: 1; color: $text-primary; }
    McpPanel #told { height: auto; max-height: 6; padding: 0 1; margin-top: 1; color: $text-muted; }
    """

    def __init__(self, management: AgentAdmin, agent: str) -> None:
        super().__init__()
        self._management = management
        self._agent = agent
        self.servers = Rows(id="servers")
        self.tools = Rows(id="tools")

    def compose(self) -> ComposeResult:
        with Vertical(id="frame") as frame:
            frame.border_title = Content(f"MCP servers of {formatting.one_line(self._agent)}")
            keys = ("tools", "enable", "disable", "reload", "close")
            frame.border_subtitle = keymap.described(self, *(f"mcp-{key}" for key in keys))
            yield self.servers
            yield Static("", id="tools-of", markup=False)
            yield self.tools
            yield Static("querying …", id="told", markup=False)

    def on_mount(self) -> None:
        self.servers.focus()
        self.query_one("#tools-of").display = self.tools.display = False
        self.action_reload()

    def report(self, text: str) -> None:
        self.query_one("#told", Static).update(text)

    # -- agent queries -----------------------------------------------------------------------------

    def action_reload(self) -> None:
        self._attempt("querying …", self._load())

    async def _load(self) -> None:
        found = await self._management.mcp_servers(self._agent)
        self.servers.fill([_row(server) for server in found])
        if not found:
            self.report(
                f"{formatting.one_line(self._agent)} has none: `tillerman mcp add` adds one"
            )
            return
        self.report("")

    def action_tools(self) -> None:
        if row := self.servers.row:
            name = formatting.one_line(row.key)
            self._attempt(f"querying the tools of {name} …", self._tools(row.key))

    async def _tools(self, server: str) -> None:
        found = await self._management.mcp_tools(self._agent, server)
        rows = [
            PickerRow(tool.name, tool.name, " ".join(tool.arguments), tool.description)
            for tool in found
        ]
        self.tools.fill(rows)
        heading = f"Tools of {formatting.one_line(server)}: {len(rows)}"
        self.query_one("#tools-of", Static).update(heading)
        self.query_one("#tools-of").display = True
        self.tools.display = bool(rows)
        self.report("")

    def action_switch(self, on: bool) -> None:
        if row := self.servers.row:
            doing = "enabling" if on else "disabling"
            self._attempt(f"{doing} {formatting.one_line(row.key)} …", self._switch(row.key, on))

    async def _switch(self, server: str, on: bool) -> None:
        await self._management.mcp_switch(self._agent, server, on)
        await self._load()
        uses = "uses" if on else "does not use"
        agent = formatting.one_line(self._agent)
        self.report(f"{agent} {uses} {formatting.one_line(server)} after its next start")

    def _attempt(self, doing: str, work: Coroutine[Any, Any, None]) -> None:
        self.report(doing)

        async def attempt() -> None:
            try:
                await work
            except TillermanError as error:
                lines = (error.message, error.hint or "")
                self.report("\n".join(formatting.one_line(line) for line in lines if line))

        self.run_worker(attempt(), exclusive=True)

    # -- keys and mouse ----------------------------------------------------------------------------

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_list is self.servers:
            self.action_tools()

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if event.option_list is self.tools and (row := self.tools.row):
            self.report(row.told)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.action_close()

    def action_close(self) -> None:
        self.dismiss(None)


def _row(server: McpServer) -> PickerRow:
    status = formatting.one_line(server.status).lower()
    tone = "bad" if any(word in status for word in ILL) else ""
    if not tone:
        tone = "good" if any(word in status for word in WELL) else "warn" if status else ""
    return PickerRow(server.name, server.name, server.status, server.command, tone)
