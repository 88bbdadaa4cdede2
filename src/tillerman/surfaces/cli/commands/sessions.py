"""`tillerman sessions`: list, show, follow, prompt, search, export, fork, rename and delete."""

from __future__ import annotations

import asyncio
import sys
from argparse import Namespace
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tillerman.core.errors import UsageError
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import (
    colored,
    confirmed,
    emit,
    emit_json,
    table,
    width,
)
from tillerman.surfaces.rendering import formatting, tables
from tillerman.surfaces.rendering.ansi_style import Style

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness
    from tillerman.store.session_row import SessionRow
    from tillerman.surfaces.cli.views.view import View

PAGE = 200  # entries per page


@open_harness.command
async def list_all(harness: Harness, options: Namespace) -> int:
    cwd = str(Path.cwd()) if options.here else None
    from msgspec.structs import replace

    rows = harness.sessions.catalog.list(cwd=cwd, agent=options.agent, limit=options.limit)
    if options.json:
        emit_json([replace(row, status=tables.session_state(row)) for row in rows])
    elif not rows:
        emit(_none(options))
    else:
        style = Style(colored(options, sys.stdout))
        emit(table(map(tables.session, rows), tables.SESSIONS, style, width()))
    return 0


@open_harness.command
async def show(harness: Harness, options: Namespace) -> int:
    from tillerman.sessions.session import read_all

    row = _row(harness, options)
    view = _still_view(options, resumable=open_harness.resumable(harness, row.agent))
    entries = read_all(harness.sessions.log, row.id)
    while page := list(islice(entries, PAGE)):
        await view.show(page)
    await view.close()
    return 0


@open_harness.command
async def follow(harness: Harness, options: Namespace) -> int:
    from tillerman.surfaces.cli.views import follow as watch
    from tillerman.surfaces.cli.views.view import ViewContext

    row = _row(harness, options)
    session = harness.attach(row.id)
    scene = ViewContext(
        Path(row.cwd),
        open_harness.resumable(harness, row.agent),
        prompts=True,
        approve=open_harness.preset(harness, row.id),
    )
    keyboard = watch.find_keyboard(options)
    view = await watch.open_view(options, session, keyboard, scene)
    waiting = None if keyboard else watch.WaitNotice(view, session.id)
    try:
        await watch.watch(watch.paged(session.entries(options.since)), view, waiting)
        await view.report(f"session {session.id} is not running")
    finally:
        await view.close()
    return 0


@open_harness.command
async def cancel(harness: Harness, options: Namespace) -> int:
    await harness.attach(_row(harness, options).id).cancel()
    return 0


@open_harness.command
async def prompt(harness: Harness, options: Namespace) -> int:
    if not options.text.strip():
        raise UsageError(
            "the prompt is empty", hint="give it as the last argument, or on standard input"
        )
    await harness.attach(_row(harness, options).id).prompt(
        options.text, when_busy=options.when_busy
    )
    return 0


@open_harness.command
async def search(harness: Harness, options: Namespace) -> int:
    hits = harness.sessions.search.search(" ".join(options.words), limit=options.limit)
    if options.json:
        emit_json(hits)
        return 0 if hits else 1
    style = Style(colored(options, sys.stdout))
    for hit in hits:
        parts = enumerate(tables.snippet(hit.snippet))
        snippet = "".join(style("bold", part) if number % 2 else part for number, part in parts)
        emit(f"{style('cyan', hit.session)}  turn {hit.turn}  {style('dim', hit.role)}  {snippet}")
    if not hits:
        emit("nothing found")
    return 0 if hits else 1


@open_harness.command
async def export(harness: Harness, options: Namespace) -> int:
    from tillerman.sessions.export import document
    from tillerman.sessions.session import read_all

    row = _row(harness, options)
    data = document(read_all(harness.sessions.log, row.id), row.title, options.format)
    if options.output is None:
        for piece in data:
            sys.stdout.buffer.write(_for_screen(piece) if sys.stdout.isatty() else piece)
        return 0
    try:
        _write(options.output, data)
    except OSError as error:
        raise UsageError(
            f"cannot write {options.output}: {error.strerror}", hint="choose another file with -o"
        ) from None
    return 0


def _write(path: Path, data: Iterable[bytes]) -> None:
    is_new = not path.exists()
    try:
        with path.open("wb") as file:
            for piece in data:
                file.write(piece)
    except BaseException:
        if is_new:
            path.unlink(missing_ok=True)
        raise


@open_harness.command
async def fork(harness: Harness, options: Namespace) -> int:
    copy = await harness.sessions.fork(_row(harness, options))
    emit(copy.id)
    return 0


@open_harness.command
async def rename(harness: Harness, options: Namespace) -> int:
    title = tables.title(options.title)
    await asyncio.wrap_future(harness.sessions.catalog.rename(_row(harness, options).id, title))
    return 0


@open_harness.command
async def delete(harness: Harness, options: Namespace) -> int:
    row = _row(harness, options)
    what = f"{row.id} ({tables.what(row)}, {row.entries} entries)"
    if not options.yes and not confirmed(f"delete session {what} permanently?"):
        raise UsageError("nothing was deleted", hint="--yes deletes without confirmation")
    await harness.sessions.delete(row)
    return 0


# -- helpers ---------------------------------------------------------------------------------------


def _still_view(options: Namespace, *, resumable: bool) -> View:
    if options.json:
        from tillerman.surfaces.cli.views.json_view import EntriesView, SummaryView

        return EntriesView() if options.json == "entries" else SummaryView()
    from tillerman.surfaces.cli.views.scroll_view import ScrollView

    return ScrollView(color=colored(options, sys.stdout), resumable=resumable)


def _none(options: Namespace) -> str:
    where = " in this folder" if options.here else ""
    if options.agent:
        agent = formatting.one_line(options.agent)
        return f"no sessions with {agent}{where}: `tillerman agents` lists all agents"
    return f'no sessions{where} yet: start one with tillerman run "…"'


def _row(harness: Harness, options: Namespace) -> SessionRow:
    return open_harness.row(harness, options.session)


def _for_screen(piece: bytes) -> bytes:
    """Reveals control characters for a terminal; files and pipes get the unmodified log."""
    from tillerman.core.terminal_sanitizer import reveal

    return reveal(piece.decode("utf-8", "replace")).encode()
