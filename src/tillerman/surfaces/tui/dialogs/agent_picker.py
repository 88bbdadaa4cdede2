"""Agent picker: lists agents with their status, queried concurrently."""

from __future__ import annotations

from collections.abc import Sequence

from tillerman.harness.agent_admin import AgentAdmin, AgentStatus
from tillerman.surfaces import query_agents
from tillerman.surfaces.rendering import agent_reports, formatting
from tillerman.surfaces.tui.dialogs.picker import Picker, PickerRow

TONES = {"ready": "good", "not signed in": "warn", "broken": "bad", "not installed": ""}


class AgentPicker(Picker):
    """Shows `known` until new results arrive, and updates it."""

    def __init__(
        self,
        management: AgentAdmin,
        names: Sequence[str],
        current: str,
        known: dict[str, AgentStatus],
    ) -> None:
        super().__init__("Agents", [self._row(name, known.get(name), current) for name in names])
        self._management = management
        self._current = current
        self._known = known

    def begin(self) -> None:
        self.run_worker(self._ask([row.key for row in self._all]), exclusive=True)

    async def _ask(self, names: Sequence[str]) -> None:
        """Queries agents known to be ready last, since their status rarely changes."""
        ready = {name for name, report in self._known.items() if report.ready}
        await query_agents.ask_all(sorted(names, key=lambda name: name in ready), self._report)

    async def _report(self, name: str) -> None:
        self._known[name] = report = await self._management.report(name)
        self.show_row(self._row(name, report, self._current))

    @staticmethod
    def _row(name: str, report: AgentStatus | None, current: str) -> PickerRow:
        if report is None:
            return PickerRow(name, name, "querying …", current=name == current)
        state = agent_reports.state(report)
        version = report.installed.version if report.installed and report.present else None
        return PickerRow(
            name,
            name,
            f"{state} {version}" if version else state,
            agent_reports.status(report)[2] or report.title,
            TONES[state],
            name == current,
        )

    def preview(self, row: PickerRow) -> None:
        report = self._known.get(row.key)
        if report is None:
            self.report("")
            return
        parts = [report.title, agent_reports.state(report)]
        if report.installed and report.installed.path:
            parts.append(f"at {report.installed.path}")
        if report.account and report.account.signed_in:
            parts.append(f"signed in {agent_reports.signed_in(report)}")
        line = formatting.one_line(", ".join(parts))
        self.report("\n".join([line, *agent_reports.next_steps([report])]))

    def chosen(self, row: PickerRow) -> None:
        report = self._known.get(row.key)
        if report is None or report.ready:
            super().chosen(row)
            return
        steps = list(agent_reports.next_steps([report]))
        if report.present and report.account and not report.account.signed_in:
            steps.append(f"or sign in here: /login {report.name}")
        agent = formatting.one_line(report.title)
        title = f"{agent} is {agent_reports.state(report)}: it cannot be selected"
        self.report("\n".join([title, *steps]))
