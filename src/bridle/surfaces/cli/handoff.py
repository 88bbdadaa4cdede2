"""`bridle handoff`: another agent goes on with a session."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from pathlib import Path
from typing import Any

from bridle.surfaces.cli import opened, watch
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
            row.id, options.agent, unattended=keyboard is None, **_wishes(options)
        )
        await session.prompt(options.words or GO_ON)
        scene = Scene(Path(row.cwd), opened.resumable(harness, session.agent))
        return await watch_session(options, session, scene, session.since, [], keyboard)


def _wishes(options: Namespace) -> dict[str, Any]:
    names = (
        "model", "mode", "approve", "max_turns", "max_cost", "max_tokens", "timeout",
        "request_timeout",
    )  # fmt: skip
    said = {name: value for name in names if (value := getattr(options, name)) is not None}
    return said | ({"accept_advisory": True} if options.accept_advisory else {})
