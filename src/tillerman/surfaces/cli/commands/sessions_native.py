"""`tillerman sessions native`, `import` and `create`: sessions stored by the agents themselves."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.agent_admin import NativeSession
from tillerman.core.errors import UsageError
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import colored, say, say_json, table, width
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.rendering.ansi_style import Style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tillerman.harness.harness import Harness

HEAD = ("NATIVE ID", "WHEN", "SESSION", "WHAT")
_MOST = 100_000  # limit of tillerman sessions searched for native ids
Work = Callable[["Harness", str, Namespace], Coroutine[Any, Any, int]]


def _command(work: Work) -> Callable[[Namespace], int]:
    async def run(options: Namespace) -> int:
        async with open_harness.harness(options) as harness:
            return await work(
                harness, options.agent or harness.config.agent.partition(",")[0], options
            )

    return lambda options: asyncio.run(run(options))


@_command
async def native(harness: Harness, agent: str, options: Namespace) -> int:
    found = await harness.management.native_sessions(agent, harness.cwd)
    if options.json:
        say_json(found)
    elif not found:
        say(f"{agent} stores no sessions for this folder")
    else:
        rows = harness.sessions.catalog.list(agent=agent, limit=_MOST)
        ours = {row.native_id: row.id for row in reversed(rows)}
        lines = [
            (one.native_id, formatting.ago(one.updated), ours.get(one.native_id, ""), one.title)
            for one in found
        ]
        say(table(lines, HEAD, Style(colored(options, sys.stdout)), width()))
    return 0


@_command
async def bring(harness: Harness, agent: str, options: Namespace) -> int:
    listed = await harness.management.native_sessions(agent, harness.cwd)
    one = _named(listed, options.native_id, agent)
    history = await harness.management.native_history(agent, one)
    session = await _adopt(harness, agent, one, history)
    say(session)
    return 0


@_command
async def create(harness: Harness, agent: str, options: Namespace) -> int:
    native_id = await harness.management.create_session(agent, harness.cwd)
    say(await _adopt(harness, agent, NativeSession(native_id, "", ""), []))
    return 0


async def _adopt(
    harness: Harness, agent: str, native: NativeSession, history: Sequence[Any]
) -> str:
    from tillerman.harness.launch_plan import launch_plan
    from tillerman.sessions.import_native import adopt

    run_settings = launch_plan(harness.config, agent, cwd=native.cwd or Path.cwd()).run_settings
    row = await adopt(harness.sessions, agent, native, history, run_settings, harness.paths.spill)
    return row.id


def _named(listed: Sequence[NativeSession], name: str, agent: str) -> NativeSession:
    """Finds a native session by its id or a unique prefix of it."""
    found = [one for one in listed if one.native_id == name] or [
        one for one in listed if one.native_id.startswith(name)
    ]
    match found:
        case [one]:
            return one
        case []:
            raise UsageError(
                f"{agent} stores no session {name!r} for this folder",
                hint=f"`tillerman sessions native -a {agent}` lists them",
            )
    raise UsageError(
        f"{name!r} matches several sessions of {agent}", hint="use more characters of its id"
    )
