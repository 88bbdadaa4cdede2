"""Cloud panel: the agents in the vendor's cloud with their state; prompts, stops, deletes them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static

from tillerman.core.agent import Prompt
from tillerman.core.cloud import RUNNING, CloudAgent, CloudClient, CloudState
from tillerman.core.errors import TillermanError
from tillerman.harness.agent_admin import AgentAdmin
from tillerman.harness.cloud import cloud_client
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.dialogs.confirmation import Confirmation
from tillerman.surfaces.tui.dialogs.picker import PickerRow, Rows
from tillerman.surfaces.tui.keys import keymap

MOST = 30  # agents shown
REFRESHED_EVERY = 5.0  # seconds
BADGES: dict[CloudState, tuple[str, str]] = {  # mark and tone
    "starting": ("○", "warn"),
    "working": ("●", "warn"),
    "idle": ("·", ""),
    "finished": ("✓", "good"),
    "failed": ("✗", "bad"),
    "cancelled": ("■", ""),
    "expired": ("✗", "bad"),
    "archived": ("·", ""),
    "unknown": ("?", ""),
}


class CloudPanel(ModalScreen[str | None]):
    """Returns the id of the agent to open as a session."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close", id="cloud-close"),
        Binding("o", "open", "Open as session", id="cloud-open"),
        Binding("f", "follow_up", "Follow up", id="cloud-follow-up"),
        Binding("s", "stop", "Stop", id="cloud-stop"),
        Binding("x", "delete", "Delete", id="cloud-delete"),
        Binding("p", "pull_request", "Pull request", id="cloud-pr"),
        Binding("r", "reload", "Refresh", id="cloud-reload"),
    ]
    DEFAULT_CSS = """
    CloudPanel { align: center middle; background: $background 50%; }
    CloudPanel > #frame {
        width: 92%; max-width: 110; height: auto; max-height: 92%;
        background: $surface; border: round $border; padding: 0 1;
        border-title-color: $text-primary; border-title-style: bold;
        border-subtitle-color: $text-muted;
    }
    CloudPanel #agents { max-height: 50vh; }
    CloudPanel Input { height: 1; border: none; display: none; margin-top: 1; }
    CloudPanel #told {
        height: auto; max-height: 6; padding: 0 1; margin-top: 1; color: $text-muted;
    }
    """

    def __init__(self, management: AgentAdmin) -> None:
        super().__init__()
        self._management = management
        self._agents: dict[str, CloudAgent] = {}
        self._followed = ""  # the id of the agent whose follow-up is typed
        self.rows = Rows(id="agents")

    def compose(self) -> ComposeResult:
        with Vertical(id="frame") as frame:
            frame.border_title = Content("Cloud agents")
            keys = ("open", "follow-up", "stop", "delete", "pr", "close")
            frame.border_subtitle = keymap.described(self, *(f"cloud-{key}" for key in keys))
            yield self.rows
            yield Input(placeholder="the next task; enter sends it")
            yield Static("querying …", id="told", markup=False)

    def on_mount(self) -> None:
        self.rows.focus()
        self.action_reload()
        self.set_interval(REFRESHED_EVERY, self._refresh)

    def report(self, text: str) -> None:
        self.query_one("#told", Static).update(text)

    # -- listing -----------------------------------------------------------------------------------

    def action_reload(self) -> None:
        self._attempt("querying …", self._load())

    def _refresh(self) -> None:
        if any(agent.state in RUNNING for agent in self._agents.values()):
            self.run_worker(self._quietly(self._load()), group="refresh", exclusive=True)

    async def _quietly(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except TillermanError as error:
            self.report(_line(error.message))

    async def _load(self) -> None:
        found: list[CloudAgent] = []
        async with cloud_client(self._management) as client:
            async for agent in client.agents():
                found.append(await _with_run(client, agent))
                if len(found) == MOST:
                    break
        self._agents = {agent.id: agent for agent in found}
        self.rows.fill([row_of(agent) for agent in found])
        self.report("" if found else "none: & followed by a task launches one")

    # -- actions -----------------------------------------------------------------------------------

    @property
    def _chosen(self) -> CloudAgent | None:
        return self._agents.get(self.rows.row.key) if self.rows.row else None

    def action_follow_up(self) -> None:
        if agent := self._chosen:
            self._followed = agent.id
            field = self.query_one(Input)
            field.display = True
            field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        text, field = event.value.strip(), event.input
        if text:
            self._attempt("sending …", self._follow_up(self._followed, text))
        field.value = ""
        field.display = False
        self.rows.focus()

    async def _follow_up(self, id: str, text: str) -> None:
        async with cloud_client(self._management) as client:
            await client.follow_up(id, Prompt(text))
        await self._load()
        self.report("sent")

    def action_stop(self) -> None:
        if agent := self._chosen:
            self._attempt("stopping …", self._stop(agent.id))

    async def _stop(self, id: str) -> None:
        async with cloud_client(self._management) as client:
            stopped = await client.stop(id)
        await self._load()
        self.report("stopped" if stopped else "it was not running")

    def action_delete(self) -> None:
        if agent := self._chosen:
            self._attempt("", self._delete(agent))

    async def _delete(self, agent: CloudAgent) -> None:
        asked = Confirmation("Delete permanently?", _line(agent.name), yes="delete", no="keep")
        if not await self.app.push_screen_wait(asked):
            return
        async with cloud_client(self._management) as client:
            await client.delete(agent.id)
        await self._load()
        self.report("deleted")

    def action_pull_request(self) -> None:
        if agent := self._chosen:
            urls = [branch.pull_request for branch in agent.branches if branch.pull_request]
            if urls and urls[-1].startswith("https://"):
                self.app.open_url(urls[-1])
                self.report(_line(urls[-1]))
            else:
                self.report("it has no pull request")

    def action_open(self) -> None:
        if agent := self._chosen:
            self.dismiss(agent.id)

    def _attempt(self, doing: str, work: Coroutine[Any, Any, None]) -> None:
        self.report(doing)

        async def attempt() -> None:
            try:
                await work
            except TillermanError as error:
                self.report("\n".join(_line(text) for text in (error.message, error.hint) if text))

        self.run_worker(attempt(), exclusive=True)

    # -- keys and mouse ----------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a follow-up is typed, letters are text."""
        typing = self.is_mounted and self.query_one(Input).has_focus
        return action == "close" if typing else True

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.action_open()

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.action_close()

    def action_close(self) -> None:
        field = self.query_one(Input)
        if field.has_focus:
            field.display = False
            self.rows.focus()
        else:
            self.dismiss(None)


async def _with_run(client: CloudClient, agent: CloudAgent) -> CloudAgent:
    """A list has only the state of the agent; that of its run says more."""
    return agent if agent.state == "archived" or not agent.run else await client.agent(agent.id)


def row_of(agent: CloudAgent) -> PickerRow:
    mark, tone = BADGES[agent.state]
    word = agent.status if agent.state == "unknown" else agent.state
    branch = agent.branches[-1].branch if agent.branches else agent.ref
    hint = " · ".join(filter(None, (formatting.ago(agent.updated or agent.created), branch)))
    return PickerRow(agent.id, agent.name or agent.id, f"{mark} {word}", hint, tone)


def _line(text: str) -> str:
    return formatting.one_line(text)
