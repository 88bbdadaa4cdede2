"""Routes of workspaces: processes and their output, the state of the repository."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import convert

from tillerman.core.errors import UsageError
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.harness.harness import Harness
from tillerman.surfaces import process_list
from tillerman.surfaces.server import bodies
from tillerman.surfaces.server.error_responses import HttpError
from tillerman.surfaces.server.route import Call, Route
from tillerman.surfaces.server.session_routes import row_of
from tillerman.workspace.branch.status import as_data, crumb
from tillerman.workspace.git.repository_state import read_repository


async def list_processes(
    call: Call[bodies.ProcessQuery, None],
) -> Sequence[bodies.ProcessDocument]:
    harness, query = call.service.harness, call.query
    session = row_of(call.service, query.session).id if query.session else None
    rows = await process_list.listed(harness, session, ended=query.all)
    return [_document(harness, row) for row in rows]


async def get(call: Call[None, None]) -> bodies.ProcessDocument:
    harness = call.service.harness
    return _document(harness, _find(call))


async def output(call: Call[bodies.OutputQuery, None]) -> bodies.ProcessOutput:
    harness, query = call.service.harness, call.query
    process = _find(call)
    path = process_list.folder_of(harness, process) / query.stream
    return await asyncio.to_thread(_read, path, query.offset, query.limit)


async def kill(call: Call[None, None]) -> None:
    process = _find(call)
    if not process.live:
        status = process_list.status_text(process)
        raise HttpError(
            409,
            "process_ended",
            f"process {process.id} has already ended: {status}",
            hint="its output can still be read",
        )
    await process_list.end(call.service.harness, process, None)


async def repository(call: Call[None, None]) -> bodies.RepositoryStatus:
    row = row_of(call.service, call.path["session"])
    found = await read_repository(Path(row.cwd))
    shown = crumb(found, await call.service.github.pull_request(found))
    return convert(as_data(shown), bodies.RepositoryStatus, from_attributes=True)


def _find(call: Call[Any, Any]) -> WorkspaceProcess:
    try:
        return process_list.find(call.service.harness, call.path["process"])
    except UsageError as error:
        raise HttpError(404, "process_not_found", error.message, hint=error.hint) from None


def _document(harness: Harness, row: WorkspaceProcess) -> bodies.ProcessDocument:
    return convert(process_list.for_programs(harness, row), bodies.ProcessDocument)


def _read(path: Path, offset: int | None, limit: int) -> bodies.ProcessOutput:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            start = max(0, size - limit) if offset is None else min(offset, size)
            file.seek(start)
            data = file.read(limit)
    except FileNotFoundError:  # not created yet, or removed after a day
        return bodies.ProcessOutput("", 0, 0, 0)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(data)
    left = len(decoder.getstate()[0])  # bytes of a character that is not complete
    if left == len(data):
        text, left = data.decode("utf-8", "replace"), 0
    return bodies.ProcessOutput(text, start, start + len(data) - left, max(size, start + len(data)))


ROUTES = (
    Route(
        "GET",
        "/processes",
        "read",
        "List the shell commands of workspaces",
        list_processes,
        query=bodies.ProcessQuery,
        response=list[bodies.ProcessDocument],
    ),
    Route(
        "GET",
        "/processes/{process}",
        "read",
        "Get one process",
        get,
        response=bodies.ProcessDocument,
    ),
    Route(
        "GET",
        "/processes/{process}/output",
        "read",
        "Read the output of a process, from an offset or from its end",
        output,
        query=bodies.OutputQuery,
        response=bodies.ProcessOutput,
    ),
    Route(
        "POST",
        "/processes/{process}/kill",
        "drive",
        "End a process and its children",
        kill,
        status=204,
    ),
    Route(
        "GET",
        "/sessions/{session}/repository",
        "read",
        "The branch of the session's folder, its pull request and the next step",
        repository,
        response=bodies.RepositoryStatus,
    ),
)
