"""Welcome screen of an empty conversation: the selected agent, or how to install one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tillerman.core.errors import UsageError
from tillerman.surfaces import query_agents
from tillerman.surfaces.rendering import agent_reports, formatting

if TYPE_CHECKING:
    from pathlib import Path

    from tillerman.harness.agent_admin import AgentStatus
    from tillerman.harness.harness import Harness
    from tillerman.surfaces.tui.app import TillermanApp
    from tillerman.surfaces.tui.session_pane import SessionPane

_NOBODY = frozenset({"mock", "replay", "codex-exec"})  # never selected automatically
_VARIANTS = ("-acp", "-cloud")  # nor those that end so: the same maker's agent, elsewhere
RECENT = 20  # sessions of the folder that are searched
TOLD = 8  # maximum agents listed with install steps


def last_agent(harness: Harness, folder: Path) -> str | None:
    """The agent of the latest session in the folder."""
    known = frozenset(harness.agents()) - _NOBODY
    rows = harness.sessions.catalog.list(cwd=str(folder), limit=RECENT)
    return next((row.agent for row in rows if row.agent in known), None)


class AgentSearch:
    """Queries agents in the background and selects the first ready one.

    `agent` is used at once if given; `changed` is called after each report.
    """

    def __init__(
        self,
        harness: Harness,
        known: dict[str, AgentStatus],
        changed: Callable[[], None],
        agent: str | None = None,
    ) -> None:
        first = agent or harness.config.agent
        names = sorted(harness.agents(), key=lambda name: name != first)
        self._names = [one for one in names if one not in _NOBODY and not one.endswith(_VARIANTS)]
        self._ask = harness.management.report
        self._known = known
        self._changed = changed
        self.agent = agent
        self._decided = asyncio.Event()
        if agent:
            self._decided.set()

    async def run(self) -> None:
        await query_agents.ask_all(self._names, self._report)
        self._decided.set()  # no agent is ready
        self._changed()

    async def found(self) -> str:
        await self._decided.wait()
        if self.agent is None:
            raise UsageError(
                "no agent is ready: the prompt was not sent",
                hint="/status all shows how to set one up; /agent mock is a built-in demo agent",
            )
        return self.agent

    async def _report(self, name: str) -> None:
        self._known[name] = await self._ask(name)
        if not self._decided.is_set():
            self._decide()
        self._changed()

    def _decide(self) -> None:
        """Selects the first ready agent in order, so that the result is deterministic."""
        for name in self._names:
            report = self._known.get(name)
            if report is None:
                return
            if report.ready:
                self.agent = name
                self._decided.set()
                return

    def greeting(self, folder: str) -> RenderableType:
        if self.agent:
            report = self._known.get(self.agent)
            problem = [] if report is None or report.ready else [_ways([report])]
            return greeting(self.agent, folder, *problem)
        reported = [report for name in self._names if (report := self._known.get(name))]
        if not self._decided.is_set():
            asked = (
                f"Checking which of {len(self._names)} agents are ready: {len(reported)} answered."
            )
            return Group(_title(), Text(), Text(asked), Text(), _ways(reported), Text(), _keys())
        nobody = Text.assemble(("No agent is ready yet. ", "yellow"), "To set one up:")
        prefetch = Text("until then, /agent mock uses the built-in demo agent", style="dim")
        return Group(_title(), Text(), nobody, Text(), _ways(reported), Text(), prefetch, _keys())


class Welcome:
    """Shows the welcome text in each empty pane."""

    def __init__(self, app: TillermanApp, harness: Harness, requested: dict[str, Any]) -> None:
        self._app = app
        self._harness = harness
        self._requested = requested
        self.search: AgentSearch | None = None  # if no agent is given

    def begin(self, folder: Path) -> AgentSearch | None:
        """Uses the given or configured agent, else the last one of the folder, else a ready one."""
        config, requested = self._harness.config, self._requested
        if not requested.get("agent") and (requested.get("model") or "agent" in config.sources):
            from tillerman.harness.agent_selection import select_agents

            requested["agent"] = select_agents(config, None, requested.get("model"), folder).names[
                0
            ]
        if not requested.get("agent"):
            requested["agent"] = last = last_agent(self._harness, folder)
            self.search = AgentSearch(self._harness, self._app.reports, self._greet_all, last)
            self._app.run_worker(self.search.run(), group="search")
        self._greet_all()
        return self.search

    def greet(self, pane: SessionPane) -> None:
        channel = pane.channel
        agent = (channel.requested if channel else self._requested).get("agent")
        folder = str(pane.folder)
        if self.search and agent in (None, self.search.agent):
            pane.conversation.greet(self.search.greeting(folder))
        elif agent:
            pane.conversation.greet(greeting(agent, folder))

    def _greet_all(self) -> None:
        for pane in self._app.panes:
            self.greet(pane)
            pane.post_message(pane.Changed(pane))


def greeting(agent: str, folder: str, *problems: RenderableType) -> RenderableType:
    works = Text(f"{formatting.one_line(agent, 40)} works in {formatting.one_line(folder, 60)}")
    return Group(_title(), Text(), works, *problems, Text(), _keys())


def _title() -> Text:
    return Text.assemble(("tillerman", "bold"), ("  one harness for every coding agent", "dim"))


def _ways(found: Iterable[AgentStatus]) -> Table:
    """Next steps for each agent, installed ones first."""
    table = Table.grid(padding=(0, 2))
    first = sorted(found, key=lambda report: not report.present)
    for report in first[:TOLD]:
        account = report.account
        how = account.hint if report.present and account else report.install
        how = report.problem or how or "see its documentation"
        table.add_row(
            Text(formatting.one_line(report.name), style="bold"),
            Text(agent_reports.state(report), style="dim"),
            Text("" if report.ready else formatting.one_line(how, 70)),
        )
    return table


def _keys() -> Text:
    return Text("ctrl+g switch agent · ctrl+l sessions · /help commands", style="dim")
