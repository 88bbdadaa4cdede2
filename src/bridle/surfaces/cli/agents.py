"""`bridle agents`: who can be driven, and what each of them can do."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins

from bridle.config.profiles import Broken, Profile
from bridle.core.capabilities import CAPABILITIES
from bridle.core.terminal import clean
from bridle.management import Report
from bridle.surfaces.cli import opened, profiles
from bridle.surfaces.cli.output import Style, colored, say, say_json, table, width
from bridle.surfaces.cli.waiting import ask_all
from bridle.surfaces.drawn import phrases

HEAD = ("AGENT", "STATE", "VERSION", "TESTED", "SIGNED IN")


def agents(options: Namespace) -> int:
    return asyncio.run(_agents(options))


async def _agents(options: Namespace) -> int:
    management, config = opened.management(options)
    own = profiles.found(config, Path.cwd(), management.names())
    if chosen := next((one for one in own if one.name == options.who), None):
        return _tell_profile(chosen, options)
    if options.who:
        management.agent(options.who)  # which says so when there is none
    names = [options.who] if options.who else management.names()
    answers = (await ask_all(names, management.report)).values()
    found = [one for one in answers if isinstance(one, Report)]
    style = Style(colored(options, sys.stdout))
    if options.json:
        told = [to_builtins(one) | {"state": state(one)} for one in found]
        say_json(told if options.who else [*told, *own])
    elif options.who:
        say(*_account_of(found[0], style))
    elif options.can:
        say(table(_abilities(found), ("CAN", "WHO"), style, width(), wrap=True))
    else:
        say(table(map(cells, found), HEAD, style, width(), wrap=True))
        say(*(style("dim", line) for line in next_steps(found)))
        if own:
            say(table(map(profiles.cells, own), profiles.HEAD, style, width(), wrap=True))
    return 0


def _tell_profile(one: Profile | Broken, options: Namespace) -> int:
    if options.json:
        say_json([one])
    else:
        say(*profiles.account_of(one, Style(colored(options, sys.stdout))))
    return 0


def state(one: Report) -> str:
    if not one.present:
        return "not installed"
    if one.problem:
        return "broken"
    return "ready" if one.ready else "not signed in"


def cells(one: Report) -> tuple[str, ...]:
    version = (one.installed and one.installed.version) or ""
    return (one.name, state(one), version, tested(one), signed_in(one))


def tested(one: Report) -> str:
    if one.tested is None:
        return ""
    oldest, newest = one.tested
    return newest if oldest == newest else f"{oldest} – {newest}"


def signed_in(one: Report) -> str:
    if one.account is None or not one.account.signed_in:
        return ""
    method, who = one.account.method, one.account.who
    if method == "variable" and who:
        return f"by {who}"
    how = f"by {method}" if method else "yes"
    return f"{how} as {who}" if who else how


def next_steps(found: Iterable[Report]) -> Iterator[str]:
    """What would make them ready, a line each; one program may be behind several agents."""
    behind: dict[str, list[str]] = {}
    for one in found:
        if one.problem:
            yield f"{one.name}: {phrases.one_line(one.problem)}"
        if not one.present and one.install:
            behind.setdefault(clean(one.install), []).append(one.name)
        if one.account and not one.account.signed_in and one.account.hint:
            yield f"to sign in to {one.name}: {phrases.one_line(one.account.hint)}"
        if one.notice:
            yield phrases.one_line(one.notice)
    for command, names in behind.items():
        yield f"to install {', '.join(names)}: {command}"


def _account_of(one: Report, style: Style) -> Iterator[str]:
    yield f"{style('bold', one.name)}  {clean(one.title)}, {state(one)}"
    if one.installed and one.installed.path:
        yield f"  {one.installed.version or 'some version'} at {clean(one.installed.path)}"
    if one.tested:
        yield f"  tested with {tested(one)}"
    if who := signed_in(one):
        yield f"  signed in {clean(who)}"
    yield from (f"  {line}" for line in next_steps([one]))
    for word, meaning in CAPABILITIES.items():
        mark = style("green", "✓") if word in one.can else style("dim", "·")
        yield f"  {mark} {word:<14} {meaning}"


def _abilities(found: Sequence[Report]) -> Iterator[tuple[str, str]]:
    for word in CAPABILITIES:
        if who := [one.name for one in found if word in one.can]:
            yield word, " ".join(who)
