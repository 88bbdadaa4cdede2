"""/cloud and `&text`: launches cloud agents from this repository, and opens their panel."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tillerman.core.agent import Prompt
from tillerman.core.cloud import RUNNING, CloudClient, CloudLaunch
from tillerman.core.errors import TillermanError, UsageError
from tillerman.surfaces.rendering import formatting
from tillerman.surfaces.tui.bars.status_bar import StatusBar
from tillerman.surfaces.tui.commands.command import channel_of
from tillerman.surfaces.tui.conversation import command_output

if TYPE_CHECKING:
    from tillerman.surfaces.tui.app import TillermanApp

COUNTED_EVERY = 15.0  # seconds, while any cloud agent runs
MOST_COUNTED = 50


async def cloud(app: TillermanApp, words: str) -> None:
    if not words:
        await _panel(app)
        return
    verb, _, text = words.partition(" ")
    if verb != "launch" or not text.strip():
        raise UsageError("usage: /cloud, or /cloud launch TEXT", hint="&TEXT launches one too")
    await _launch(app, text.strip())


async def _panel(app: TillermanApp) -> None:
    from tillerman.harness.cloud_import import import_cloud_agent, session_of
    from tillerman.surfaces.tui.dialogs.cloud_panel import CloudPanel

    harness = channel_of(app.pane).harness
    chosen = await app.push_screen_wait(CloudPanel(harness.management))
    count_soon(app)
    if chosen:
        row = session_of(harness, chosen) or await import_cloud_agent(harness, chosen)
        await app.open_pane(row)


async def _launch(app: TillermanApp, text: str) -> None:
    """From the repository and branch of the folder; asks if the cloud would not see all of it."""
    from tillerman.harness.cloud import cloud_client, place_of
    from tillerman.surfaces.tui.dialogs.confirmation import Confirmation

    pane = app.pane
    channel = channel_of(pane)
    place = await place_of(channel.cwd)
    if place.warnings:
        from rich.text import Text

        where = Text(formatting.one_line(f"{place.repository} at {place.ref}"))
        asked = Confirmation(
            "Launch a cloud agent from here?",
            where,
            notes=place.warnings,
            yes="launch",
            no="cancel",
        )
        if not await app.push_screen_wait(asked):
            pane.box.give_back(f"&{text}")
            return
    title = f"Cloud agent on {place.ref}"
    with command_output.PendingOutput(pane, title, "launching") as waiting:
        wanted = CloudLaunch(Prompt(text), repository=place.repository, ref=place.ref)
        async with cloud_client(channel.harness.management) as client:
            agent = await client.launch(wanted)
        waiting.report(command_output.lines(agent.id, agent.url, "/cloud shows its state"))
    count_soon(app)


def count_soon(app: TillermanApp) -> None:
    """Shows how many cloud agents run, until none does."""
    app.run_worker(_count(app), group="cloud", exclusive=True)


async def _count(app: TillermanApp) -> None:
    from tillerman.harness.cloud import cloud_client

    management = channel_of(app.pane).harness.management
    try:
        async with cloud_client(management) as client:
            while running := await _running(client):
                app.query_one(StatusBar).show_cloud(running)
                await asyncio.sleep(COUNTED_EVERY)
    except TillermanError:
        pass  # the count is dropped: whoever asks for the agents sees the error
    app.query_one(StatusBar).show_cloud(0)


async def _running(client: CloudClient) -> int:
    running = seen = 0
    async for agent in client.agents():
        seen += 1
        running += agent.state in RUNNING
        if seen == MOST_COUNTED:
            break
    return running
