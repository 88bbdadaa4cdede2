"""`tillerman handoff`: continues a session with another agent."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path

from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.commands.run import watch_session
from tillerman.surfaces.cli.parsing import run_options
from tillerman.surfaces.cli.views import follow

GO_ON = "Continue with the task."


def handoff(options: Namespace) -> int:
    return asyncio.run(_handoff(options))


async def _handoff(options: Namespace) -> int:
    from tillerman.surfaces.cli.views.view import ViewContext

    async with open_harness.harness(options) as harness:
        row = open_harness.row(harness, options.session)
        keyboard = follow.find_keyboard(options)
        session = await harness.handoff(
            row.id, options.agent, unattended=keyboard is None, **run_options.limits(options)
        )
        await session.prompt(options.words or GO_ON)
        approve = open_harness.preset(harness, session.id)
        scene = ViewContext(
            Path(row.cwd), open_harness.resumable(harness, session.agent), approve=approve
        )
        return await watch_session(options, session, scene, session.since, [], keyboard)
