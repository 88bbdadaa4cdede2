"""`tillerman status`: shows which agents are signed in, and how to sign in to the others."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import to_builtins

from tillerman.harness.agent_admin import AgentStatus
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, width
from tillerman.surfaces.cli.views.progress import ask_all
from tillerman.surfaces.exit_codes import NOT_READY
from tillerman.surfaces.rendering import agent_reports
from tillerman.surfaces.rendering.ansi_style import Style


def status(options: Namespace) -> int:
    return asyncio.run(_status(options))


async def _status(options: Namespace) -> int:
    management, _ = open_harness.management(options)
    if options.who:
        management.agent(options.who)  # raises if it is unknown
        report, about = await management.full_report(options.who)
        found = [_document(report, about)]
    else:
        asked = await ask_all(management.names(), management.report)
        answers = [one for one in asked.values() if isinstance(one, AgentStatus)]
        found = [_document(one, {}) for one in answers]
    style = Style(colored(options, sys.stdout))
    if options.json:
        emit_json(found)
    elif options.who:
        emit(*_lines(report, about, style))
    else:
        emit(
            table(
                map(agent_reports.status, answers), agent_reports.STATUS, style, width(), wrap=True
            )
        )
    if options.who and not report.ready:
        return 1 if report.problem else NOT_READY
    return 0


def _lines(one: AgentStatus, about: Mapping[str, str], style: Style) -> Iterator[str]:
    yield f"{style('bold', one.name)}  {agent_reports.state(one)}"
    yield from (f"  {line}" for line in agent_reports.details(one, about))


def _document(one: AgentStatus, about: Mapping[str, str]) -> dict[str, Any]:
    keys = ("name", "title", "installed", "account", "problem", "notice")
    fields: dict[str, Any] = {key: to_builtins(getattr(one, key)) for key in keys}
    return fields | {"ready": one.ready, "about": dict(about)}
