"""`bridle handoff`: another agent goes on with a session."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path

from bridle.surfaces.cli import asked, opened, watch
from bridle.surfaces.cli.run import watch_session

GO_ON = "Go on with the task."


def handoff(options: Namespace) -> int:
    return asyncio.run(_handoff(options))


async def _handoff(options: Namespace) -> int:
    from bridle.surfaces.cli.view import Scene

    async with opened.harness(options) as harness:
        row = opened.row(harness, options.session)
        keyboard = watch.find_keyboard(options)
        session = await harness.handoff(
            row.id, options.agent, unattended=keyboard is None, **asked.limits(options)
        )
        await session.prompt(options.words or GO_ON)
        approve = opened.preset(harness, session.id)
        scene = Scene(Path(row.cwd), opened.resumable(harness, session.agent), approve=approve)
        return await watch_session(options, session, scene, session.since, [], keyboard)
