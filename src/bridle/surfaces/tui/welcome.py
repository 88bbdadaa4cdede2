"""What an empty conversation shows: who answers here, and how to get whom one misses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from bridle.surfaces.drawn import phrases

if TYPE_CHECKING:
    from bridle.app import Harness
    from bridle.management import Report

EMBEDDED = "mock"
_NOBODY = frozenset({EMBEDDED, "replay", "codex-exec"})  # not asked for when nobody is named
TOLD = 8  # agents that are told how to get


@dataclass(frozen=True)
class Choice:
    agent: str
    missing: tuple[Report, ...] = ()  # who cannot be used, if nobody can


async def first_agent(harness: Harness, wished: str | None) -> Choice:
    """Whom the person or the config names; else the first that is ready, else the embedded one."""
    config = harness.config
    if wished or "agent" in config.sources:
        return Choice(wished or config.agent)
    names = sorted(harness.agents(), key=lambda name: name != config.agent)
    asked = [name for name in names if name not in _NOBODY and not name.endswith("-acp")]
    reports = await asyncio.gather(*map(harness.management.report, asked))
    ready = next((report.name for report in reports if report.ready), None)
    return Choice(ready) if ready else Choice(EMBEDDED, tuple(reports))


def greeting(choice: Choice, folder: str) -> RenderableType:
    name = phrases.one_line(choice.agent, 40)
    lines = [
        Text.assemble(("bridle", "bold"), ("  one harness for every coding agent", "dim")),
        Text(),
        Text(f"{name} works in {phrases.one_line(folder, 60)}"),
    ]
    if not choice.missing:
        return Group(*lines, Text(), _keys())
    meanwhile = "The embedded one answers meanwhile: it plays a script, and needs no key."
    lines[-1] = Text.assemble(("No agent is ready yet. ", "yellow"), meanwhile)
    return Group(*lines, Text(), _ways(choice.missing), Text(), _keys())


def _ways(reports: Sequence[Report]) -> Table:
    """What to run for each, those first that are half there."""
    table = Table.grid(padding=(0, 2))
    first = sorted(reports, key=lambda report: not report.present)
    for report in first[:TOLD]:
        account = report.account
        how = account.hint if report.present and account else report.install
        state = "sign in" if report.present else "install"
        table.add_row(
            Text(phrases.one_line(report.name), style="bold"),
            Text(state, style="dim"),
            Text(phrases.one_line(how or "see its own documents", 70)),
        )
    return table


def _keys() -> Text:
    return Text("ctrl+g another agent · ctrl+l earlier sessions · /help all commands", style="dim")
