"""Routes of sessions: list, search, start, get, rename, fork, hand off, delete, export."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from tillerman.core.agent import File
from tillerman.core.errors import UsageError
from tillerman.core.events import Entry
from tillerman.core.transcript.transcript import Transcript, fold
from tillerman.sessions.export import document
from tillerman.sessions.session import read_all
from tillerman.store.search import Hit
from tillerman.store.session_row import SessionRow
from tillerman.surfaces.rendering import tables
from tillerman.surfaces.server import bodies
from tillerman.surfaces.server.route import LARGE_BODY, Bytes, Call, Route
from tillerman.surfaces.server.service import Service

_MEDIA = {
    "markdown": "text/markdown; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "jsonl": "application/jsonl",
}
# An exported page is a document of its own, whoever opens it on this origin.


def row_of(service: Service, session: str) -> SessionRow:
    return service.harness.find(session)


def shown(row: SessionRow) -> SessionRow:
    """The row as `sessions list --json` gives it."""
    return replace(row, status=tables.session_state(row))


def transcript(service: Service, row: SessionRow) -> Transcript:
    return fold(read_all(service.harness.sessions.log, row.id))


async def list_sessions(call: Call[bodies.SessionListQuery, None]) -> Sequence[SessionRow]:
    query = call.query
    rows = call.service.harness.sessions.catalog.list(
        cwd=query.cwd,
        agent=query.agent,
        status=query.status,
        limit=query.limit,
        offset=query.offset,
    )
    return [shown(row) for row in rows]


async def search(call: Call[bodies.SearchQuery, None]) -> Sequence[Hit]:
    query = call.query
    find = call.service.harness.sessions.search.search
    return await asyncio.to_thread(find, query.q, session=query.session, limit=query.limit)


async def start(call: Call[None, bodies.StartSession]) -> SessionRow:
    body, owned = call.body, call.service.owned
    folder = Path(body.cwd)
    if not folder.is_absolute() or "\0" in body.cwd or not folder.is_dir():
        raise UsageError(
            f"cwd is not an absolute path of a folder: {body.cwd!r}",
            hint="name a folder on the machine of the service",
        )
    if body.files and body.prompt is None:
        raise UsageError("files are given without a prompt", hint="give `prompt` too")
    files = _files(body.files)
    session = await owned.start(
        body.agent, folder, body.given(), title=body.title, linger=body.linger
    )
    if body.prompt is not None:
        await owned.first_prompt(session, body.prompt, files)
    return shown(row_of(call.service, session.id))


async def get(call: Call[None, None]) -> SessionRow:
    return shown(row_of(call.service, call.path["session"]))


async def rename(call: Call[None, bodies.ChangeSession]) -> SessionRow:
    row = row_of(call.service, call.path["session"])
    title = tables.title(call.body.title)
    await asyncio.wrap_future(call.service.harness.sessions.catalog.rename(row.id, title))
    return shown(row_of(call.service, row.id))


async def fork(call: Call[None, bodies.ForkSession]) -> SessionRow:
    row = row_of(call.service, call.path["session"])
    copy = await call.service.harness.sessions.fork(row, up_to_seq=call.body.up_to_seq)
    return shown(copy)


async def delete(call: Call[None, None]) -> None:
    row = row_of(call.service, call.path["session"])
    await call.service.owned.release(row.id)
    await call.service.harness.sessions.delete(row)
    call.service.feeds.deleted(row.id)


async def export(call: Call[bodies.ExportQuery, None]) -> Bytes:
    row = row_of(call.service, call.path["session"])
    log = call.service.harness.sessions.log

    def made() -> bytes:
        return b"".join(document(read_all(log, row.id), row.title, call.query.format))

    return Bytes(await asyncio.to_thread(made), _MEDIA[call.query.format])


async def entries(call: Call[bodies.EntriesQuery, None]) -> Sequence[Entry]:
    row = row_of(call.service, call.path["session"])
    log = call.service.harness.sessions.log
    page = await asyncio.to_thread(log.page, row.id, call.query.since)
    return page[: call.query.limit]


async def close(call: Call[None, None]) -> None:
    await call.service.owned.close(row_of(call.service, call.path["session"]).id)


def _files(given: Sequence[bodies.PromptFile]) -> list[File]:
    return [one.file() for one in given]


ROUTES = (
    Route(
        "GET",
        "/sessions",
        "read",
        "List sessions, newest first",
        list_sessions,
        query=bodies.SessionListQuery,
        response=list[SessionRow],
    ),
    Route(
        "GET",
        "/search",
        "read",
        "Search the messages of all sessions",
        search,
        query=bodies.SearchQuery,
        response=list[Hit],
    ),
    Route(
        "POST",
        "/sessions",
        "drive",
        "Start a session, and its first turn if a prompt is given",
        start,
        body=bodies.StartSession,
        response=SessionRow,
        status=201,
        body_limit=LARGE_BODY,
    ),
    Route(
        "GET",
        "/sessions/{session}",
        "read",
        "Get a session by its id, or by the beginning of its id",
        get,
        response=SessionRow,
    ),
    Route(
        "PATCH",
        "/sessions/{session}",
        "drive",
        "Change the title of a session",
        rename,
        body=bodies.ChangeSession,
        response=SessionRow,
    ),
    Route(
        "DELETE",
        "/sessions/{session}",
        "drive",
        "Delete a session that no process runs",
        delete,
        status=204,
    ),
    Route(
        "POST",
        "/sessions/{session}/fork",
        "drive",
        "Copy a session, to continue from there",
        fork,
        body=bodies.ForkSession,
        response=SessionRow,
        status=201,
    ),
    Route(
        "POST",
        "/sessions/{session}/close",
        "drive",
        "End the agent of a session that the service runs",
        close,
        status=204,
    ),
    Route(
        "GET",
        "/sessions/{session}/export",
        "read",
        "Export a session as a document",
        export,
        query=bodies.ExportQuery,
        response=str,
        media="text/markdown",
    ),
    Route(
        "GET",
        "/sessions/{session}/entries",
        "read",
        "Read a page of the log; fewer than `limit` do not mean the end, an empty page does",
        entries,
        query=bodies.EntriesQuery,
        response=list[Entry],
    ),
)
