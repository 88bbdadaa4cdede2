"""`tillerman models`: lists the models of one agent or of all agents."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Sequence

from tillerman.core.agent_admin import Model
from tillerman.core.errors import AgentNotInstalled, TillermanError
from tillerman.harness.agent_admin import AgentAdmin
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import colored, emit, emit_json, table, warn, width
from tillerman.surfaces.cli.views.progress import ask_all
from tillerman.surfaces.rendering import tables
from tillerman.surfaces.rendering.ansi_style import Style


def models(options: Namespace) -> int:
    return asyncio.run(_models(options))


async def _models(options: Namespace) -> int:
    agent = options.agent or options.who
    management, _ = open_harness.management(options)
    listed = {agent: await management.models(agent)} if agent else await _all(management)
    if options.json:
        emit_json(listed)
        return 0
    style = Style(colored(options, sys.stdout))
    emit(table(tables.models(listed), tables.MODELS, style, width()))
    if tables.shipped(listed):
        emit(style("dim", tables.SHIPPED))
    return 0


async def _all(management: AgentAdmin) -> dict[str, Sequence[Model]]:
    """Models of all agents; agents that are not installed are skipped silently."""
    listed: dict[str, Sequence[Model]] = {}
    answers = await ask_all(management.lists_models(), management.models)
    for name, answer in answers.items():
        if not isinstance(answer, TillermanError):
            listed[name] = answer
        elif not isinstance(answer, AgentNotInstalled):
            warn(f"{name}: {answer.message}", answer.hint)
    return listed
