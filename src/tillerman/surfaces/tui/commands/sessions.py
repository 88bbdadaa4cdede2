"""/new, /clear, /sessions, /resume, /fork, /export: session commands."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from tillerman.core.errors import SessionNotFound, UsageError
from tillerman.sessions.export import Format
from tillerman.surfaces.rendering import formatting, tables
from tillerman.surfaces.tui.commands.command import (
    channel_of,
    config_of,
    refuse_while_busy,
    row_of,
)
from tillerman.surfaces.tui.conversation import command_output
from tillerman.surfaces.tui.conversation.blocks import CommandBlock
from tillerman.surfaces.tui.dialogs.export_dialog import ENDINGS, usual_name, write

if TYPE_CHECKING:
    from rich.table import Table

    from tillerman.harness.harness import Harness
    from tillerman.store.session_row import SessionRow
    from tillerman.surfaces.tui.app import TillermanApp

SHOWN = 20  # maximum sessions listed
_BY_ENDING: dict[str, Format] = {ending: format for format, ending in ENDINGS.items()}


async def new(app: TillermanApp, words: str) -> None:
    from tillerman.harness.agent_selection import select_agents

    pane = app.pane
    channel = channel_of(pane)
    requested = {**channel.requested, "model": None, "mode": None}
    if words:
        name = select_agents(config_of(pane), words, None, channel.cwd).names[0]
        channel.harness.agent(name)  # raises if it is unknown
        requested["agent"] = words
    elif row := channel.row:
        requested["agent"] = row.agent
    await app.open_pane(None, **requested)


async def clear(app: TillermanApp, words: str) -> None:
    from tillerman.surfaces.tui.session_controller import SessionController

    pane = app.pane
    refuse_while_busy(pane)
    channel = channel_of(pane)
    row = channel.row
    requested = {**channel.requested, "agent": row.agent} if row else channel.requested
    pane.renew(SessionController(channel.harness, channel.cwd, **requested))
    if row:
        reported = command_output.lines(f"the previous session is saved: /resume {row.id}")
        pane.report(CommandBlock("New session", reported))
    await channel.close()


async def browse(app: TillermanApp, words: str) -> None:
    if not words:
        app.action_browse_sessions()
        return
    pane = app.pane
    harness = channel_of(pane).harness
    hits = harness.sessions.search.search(words, limit=SHOWN)
    rows = [harness.find(session) for session in dict.fromkeys(hit.session for hit in hits)]
    title = f"Sessions with “{formatting.one_line(words, 40)}”"
    pane.report(
        CommandBlock(title, _listed(rows) if rows else command_output.lines("nothing found"))
    )


def _listed(rows: list[SessionRow]) -> Table:
    return command_output.table(tables.SESSIONS, map(tables.session, rows))


async def resume(app: TillermanApp, words: str) -> None:
    if not words:
        app.action_browse_sessions()
        return
    await app.open_pane(_found(channel_of(app.pane).harness, words))


def _found(harness: Harness, words: str) -> SessionRow:
    try:
        return harness.find(words)
    except SessionNotFound as error:
        error.hint = "/sessions lists all sessions"
        raise


async def fork(app: TillermanApp, words: str) -> None:
    pane = app.pane
    row = row_of(pane)
    copy = await channel_of(pane).harness.sessions.fork(row)
    await app.open_pane(copy)
    app.pane.report(
        CommandBlock(
            "Copied session", command_output.lines(f"copy of {row.id}, which is unchanged")
        )
    )


async def export(app: TillermanApp, words: str) -> None:
    pane = app.pane
    row = row_of(pane)
    file, format = _target(words, row)
    path = channel_of(pane).cwd / file.expanduser()
    log = channel_of(pane).harness.sessions.log
    with command_output.PendingOutput(pane, "Export", f"writing {path}") as waiting:
        size = await asyncio.to_thread(write, log, row, format, path)
        waiting.report(command_output.lines(f"{path} ({formatting.size(size)}, {format})"))


def _target(words: str, row: SessionRow) -> tuple[Path, Format]:
    try:
        given = shlex.split(words)
    except ValueError as error:
        raise UsageError(f"/export: {error}", hint="close the quotes") from None
    chosen = next((format for format in get_args(Format) if format in given[-1:]), None)
    names = given[:-1] if chosen else given
    if len(names) > 1:
        raise UsageError(
            f"expected one file and one format, not {len(given)} arguments",
            hint=f"/export FILE {'|'.join(get_args(Format))}; quote a name with spaces",
        )
    if not names:
        format: Format = chosen or "markdown"
        return Path(usual_name(row, format)), format
    file = Path(names[0])
    return file, chosen or _BY_ENDING.get(file.suffix[1:], "markdown")
