"""`bridle models`: the models of one agent, or of all."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence

from bridle.core.errors import AgentNotInstalled, BridleError
from bridle.core.management import Model
from bridle.management import Management
from bridle.surfaces.cli import opened
from bridle.surfaces.cli.output import Style, colored, say, say_json, table, warn, width
from bridle.surfaces.cli.waiting import ask_all
from bridle.surfaces.drawn import phrases

HEAD = ("AGENT", "MODEL", "CONTEXT", "EFFORT", "WHAT")
OURS = "* from bridle's own table: the agent does not list its models"


def models(options: Namespace) -> int:
    return asyncio.run(_models(options))


async def _models(options: Namespace) -> int:
    agent = options.agent or options.who
    management, _ = opened.management(options)
    listed = {agent: await management.models(agent)} if agent else await _all(management)
    if options.json:
        say_json(listed)
        return 0
    style = Style(colored(options, sys.stdout))
    rows = list(_rows(listed))
    say(table(rows, HEAD, style, width()))
    if any(model.shipped for models in listed.values() for model in models):
        say(style("dim", OURS))
    return 0


async def _all(management: Management) -> dict[str, Sequence[Model]]:
    """An agent that is not installed is none that was asked for."""
    listed: dict[str, Sequence[Model]] = {}
    answers = await ask_all(management.lists_models(), management.models)
    for name, answer in answers.items():
        if not isinstance(answer, BridleError):
            listed[name] = answer
        elif not isinstance(answer, AgentNotInstalled):
            warn(f"{name}: {answer.message}", answer.hint)
    return listed


def _rows(listed: Mapping[str, Sequence[Model]]) -> Iterator[tuple[str, ...]]:
    for name, models in listed.items():
        for model in models:
            context = phrases.count(model.context) if model.context else ""
            mark = "*" if model.shipped else ""
            yield name, model.id + mark, context, _efforts(model), _words(model)


def _efforts(model: Model) -> str:
    match model.efforts:
        case (least, *_, most):
            return f"{least} – {most}"
    return "".join(model.efforts)


def _words(model: Model) -> str:
    marks = [word for word in ("default", "current", "thinking") if getattr(model, word)]
    said = ", ".join(marks)
    if model.title == model.id:
        return said
    return f"{model.title} ({said})" if said else model.title
