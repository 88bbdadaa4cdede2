"""`bridle status`: who is signed in to which agent, and how to sign in to the others."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import to_builtins

from bridle.core.errors import BridleError
from bridle.core.management import TellsAbout
from bridle.core.terminal import clean
from bridle.management import Management, Report
from bridle.surfaces.cli import opened
from bridle.surfaces.cli.agents import next_steps, signed_in, state
from bridle.surfaces.cli.output import Style, colored, say, say_json, table, width
from bridle.surfaces.cli.waiting import ask_all
from bridle.surfaces.drawn import phrases
from bridle.surfaces.exits import NOT_READY

HEAD = ("AGENT", "STATE", "SIGNED IN, OR HOW TO")


def status(options: Namespace) -> int:
    return asyncio.run(_status(options))


async def _status(options: Namespace) -> int:
    management, _ = opened.management(options)
    if options.who:
        management.agent(options.who)  # which says so when there is none
        report, about = await _one(management, options.who)
        found = [_document(report, about)]
    else:
        answers = (await ask_all(management.names(), management.report)).values()
        reports = [one for one in answers if isinstance(one, Report)]
        found = [_document(one, {}) for one in reports]
    style = Style(colored(options, sys.stdout))
    if options.json:
        say_json(found)
    elif options.who:
        say(*_lines(report, about, style))
    else:
        rows = [(one.name, state(one), signed_in(one) or _to_do(one)) for one in reports]
        say(table(rows, HEAD, style, width(), wrap=True))
    if options.who and not report.ready:
        return 1 if report.problem else NOT_READY
    return 0


async def _one(management: Management, name: str) -> tuple[Report, Mapping[str, str]]:
    report = await management.report(name)
    about: Mapping[str, str] = {}
    if report.ready and isinstance(management.agent(name), TellsAbout):
        try:
            about = await management.about(name)
        except BridleError as error:
            about = {"problem": error.message}
    return report, about


def _lines(one: Report, about: Mapping[str, str], style: Style) -> Iterator[str]:
    yield f"{style('bold', one.name)}  {state(one)}"
    if who := signed_in(one):
        yield f"  signed in {clean(who)}"
    yield from (f"  {line}" for line in next_steps([one]))
    for key, value in about.items():
        yield f"  {phrases.one_line(key)}: {phrases.one_line(value)}"


def _to_do(one: Report) -> str:
    if one.problem:
        return one.problem
    if not one.present:
        return one.install
    return one.account.hint if one.account else ""


def _document(one: Report, about: Mapping[str, str]) -> dict[str, Any]:
    keys = ("name", "title", "installed", "account", "problem", "notice")
    told: dict[str, Any] = {key: to_builtins(getattr(one, key)) for key in keys}
    return told | {"ready": one.ready, "about": dict(about)}
