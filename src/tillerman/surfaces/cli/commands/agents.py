"""`tillerman agents`: lists agents, their state, versions and capabilities."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins

from tillerman.config.profiles import InvalidProfile, Profile
from tillerman.core.capabilities import CAPABILITIES
from tillerman.core.terminal_sanitizer import clean
from tillerman.harness.agent_admin import AgentStatus
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views import profile_tables
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, width
from tillerman.surfaces.cli.views.progress import ask_all
from tillerman.surfaces.rendering.agent_reports import next_steps, signed_in, state, tested
from tillerman.surfaces.rendering.ansi_style import Style

HEAD = ("AGENT", "STATE", "VERSION", "TESTED", "SIGNED IN")


def agents(options: Namespace) -> int:
    return asyncio.run(_agents(options))


async def _agents(options: Namespace) -> int:
    management, config = open_harness.management(options)
    own = profile_tables.found(config, Path.cwd(), management.names())
    if chosen := next((one for one in own if one.name == options.who), None):
        return _print_profile(chosen, options)
    if options.who:
        management.agent(options.who)  # raises if it is unknown
    names = [options.who] if options.who else management.names()
    answers = (await ask_all(names, management.report)).values()
    found = [one for one in answers if isinstance(one, AgentStatus)]
    style = Style(colored(options, sys.stdout))
    if options.json:
        reported = [to_builtins(one) | {"state": state(one)} for one in found]
        emit_json(reported if options.who else [*reported, *own])
    elif options.who:
        emit(*_account_of(found[0], style))
    elif options.can:
        emit(table(_abilities(found), ("CAN", "WHO"), style, width(), wrap=True))
    else:
        emit(table(map(cells, found), HEAD, style, width(), wrap=True))
        emit(*(style("dim", line) for line in next_steps(found)))
        if own:
            emit(
                table(
                    map(profile_tables.cells, own), profile_tables.HEAD, style, width(), wrap=True
                )
            )
    return 0


def _print_profile(one: Profile | InvalidProfile, options: Namespace) -> int:
    if options.json:
        emit_json([one])
    else:
        emit(*profile_tables.account_of(one, Style(colored(options, sys.stdout))))
    return 0


def cells(one: AgentStatus) -> tuple[str, ...]:
    version = (one.installed and one.installed.version) or ""
    return (one.name, state(one), version, tested(one), signed_in(one))


def _account_of(one: AgentStatus, style: Style) -> Iterator[str]:
    yield f"{style('bold', one.name)}  {clean(one.title)}, {state(one)}"
    if one.installed and one.installed.path:
        yield f"  {one.installed.version or 'unknown version'} at {clean(one.installed.path)}"
    if one.tested:
        yield f"  tested with {tested(one)}"
    if who := signed_in(one):
        yield f"  signed in {clean(who)}"
    yield from (f"  {line}" for line in next_steps([one]))
    for word, meaning in CAPABILITIES.items():
        mark = style("green", "✓") if word in one.can else style("dim", "·")
        yield f"  {mark} {word:<14} {meaning}"


def _abilities(found: Sequence[AgentStatus]) -> Iterator[tuple[str, str]]:
    for word in CAPABILITIES:
        if who := [one.name for one in found if word in one.can]:
            yield word, " ".join(who)
