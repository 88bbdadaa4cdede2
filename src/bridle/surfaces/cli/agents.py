"""`bridle agents` and `bridle models`: who can be driven, and with which models."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridle.core.agent import (
    CAPABILITIES,
    Account,
    Agent,
    Installed,
    Model,
    TellsModels,
    capabilities,
)
from bridle.core.errors import BridleError
from bridle.core.terminal import clean
from bridle.surfaces.cli import opened, phrases
from bridle.surfaces.cli.output import Style, colored, say, say_json, table, warn, width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridle.app import Harness

PATIENCE = 30.0  # seconds for one agent to tell about itself


@dataclass(frozen=True)
class About:
    name: str
    title: str
    can: tuple[str, ...]
    install: str = ""  # the command that installs it
    installed: Installed | None = None  # None: nothing to install, or it could not be told
    account: Account | None = None
    problem: str = ""

    @property
    def ready(self) -> bool:
        present = self.installed is None or self.installed.path is not None
        return present and not self.problem and (self.account is None or self.account.signed_in)

    @property
    def state(self) -> str:
        if self.problem:
            return phrases.one_line(self.problem)
        if self.installed is None:
            return "ready"  # there is nothing to install
        if self.installed.path is None:
            return "not installed"
        version = self.installed.version or "installed"
        if self.account is None:
            return version
        return version if self.account.signed_in else f"{version}, not signed in"


def agents(options: Namespace) -> int:
    return asyncio.run(_agents(options))


def models(options: Namespace) -> int:
    return asyncio.run(_models(options))


async def _agents(options: Namespace) -> int:
    async with opened.harness(options) as harness:
        if options.agent:
            harness.agent(options.agent)  # which says so when there is none
            found: Sequence[About] = [await about(harness, options.agent)]
        else:
            found = await about_all(harness)
    if options.json:
        say_json(found)
        return 0
    if options.agent:
        _tell(found[0], Style(colored(options, sys.stdout)))
        return 0
    rows = [(one.name, one.title, one.state, " ".join(one.can)) for one in found]
    style = Style(colored(options, sys.stdout))
    say(table(rows, ("AGENT", "TITLE", "STATE", "CAN"), style, width(), wrap=True))
    missing = [one for one in found if one.installed and one.installed.path is None and one.install]
    for one in missing:
        say(style("dim", f"to install {one.name}: {one.install}"))
    return 0


def _tell(one: About, style: Style) -> None:
    say(f"{style('bold', one.name)}  {clean(one.title)}, {clean(one.state)}")
    if one.installed and one.installed.path:
        say(f"  at {clean(one.installed.path)}")
    elif one.installed and one.install:
        say(f"  to install it: {one.install}")
    if one.account and one.account.hint:
        say(f"  {clean(one.account.hint)}")
    for word, meaning in CAPABILITIES.items():
        mark = style("green", "✓") if word in one.can else style("dim", "·")
        say(f"  {mark} {word:<12} {meaning}")


async def about_all(harness: Harness) -> Sequence[About]:
    return await asyncio.gather(*(about(harness, name) for name in harness.agents()))


async def about(harness: Harness, name: str) -> About:
    try:
        agent: Agent = harness.agent(name)
    except Exception as error:  # a third party's module may fail in any way
        return About(name, name, (), problem=f"cannot be loaded: {type(error).__name__}: {error}")
    known = About(name, agent.info.title, tuple(sorted(capabilities(agent))), agent.info.install)
    try:
        async with asyncio.timeout(PATIENCE):
            installed = await harness.installed(name)
            present = installed is None or installed.path is not None
            account = await harness.account(name) if present else None
    except TimeoutError:
        return _with_problem(known, f"did not answer within {PATIENCE:g} s")
    except BridleError as error:
        return _with_problem(known, error.message)
    return About(name, known.title, known.can, known.install, installed, account)


def _with_problem(known: About, problem: str) -> About:
    return About(known.name, known.title, known.can, known.install, problem=problem)


async def _models(options: Namespace) -> int:
    listed: dict[str, Sequence[Model]] = {}
    async with opened.harness(options) as harness:
        if options.agent:
            listed[options.agent] = await harness.models(options.agent)
        else:
            listed = await _all_models(harness)
    if options.json:
        say_json(listed)
        return 0
    rows = [
        (name, model.id, _context(model), ", ".join(model.efforts), _words(model))
        for name, models in listed.items()
        for model in models
    ]
    style = Style(colored(options, sys.stdout))
    say(table(rows, ("AGENT", "MODEL", "CONTEXT", "EFFORT", "WHAT"), style, width()))
    return 0


async def _all_models(harness: Harness) -> dict[str, Sequence[Model]]:
    names = [name for name in harness.agents() if isinstance(harness.agent(name), TellsModels)]
    found = await asyncio.gather(*(harness.models(name) for name in names), return_exceptions=True)
    listed: dict[str, Sequence[Model]] = {}
    for name, models in zip(names, found, strict=True):
        if isinstance(models, BridleError):
            warn(f"{name}: {models.message}", models.hint)
        elif isinstance(models, BaseException):
            raise models
        else:
            listed[name] = models
    return listed


def _context(model: Model) -> str:
    return phrases.count(model.context) if model.context else ""


def _words(model: Model) -> str:
    marks = [word for word in ("default", "current", "thinking") if getattr(model, word)]
    return f"{model.title} ({', '.join(marks)})" if marks else model.title
