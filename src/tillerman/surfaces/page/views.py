"""Collects what the parts of a page show, from the service."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from tillerman._version import __version__
from tillerman.core.agent import Mode
from tillerman.core.events import FileChange, PermissionRequested, QuestionAsked
from tillerman.core.session_options import Preset
from tillerman.core.transcript.transcript import Transcript
from tillerman.harness.harness import Harness
from tillerman.sessions.permissions.project_rules import project_of
from tillerman.store.session_row import OpenRequest, SessionRow
from tillerman.surfaces.page.composer_html import ComposerView, SelectOption
from tillerman.surfaces.page.document import PageLayout
from tillerman.surfaces.page.request_html import ShownRequest
from tillerman.surfaces.page.session_list_html import RailEntry
from tillerman.surfaces.page.side_panel_html import BranchView, ProcessView, SideView
from tillerman.surfaces.rendering import formatting, tables
from tillerman.surfaces.server.service import Service
from tillerman.workspace.branch.status import crumb
from tillerman.workspace.git.repository_state import read_repository

LISTED = 60  # sessions in the list, besides those that run or need somebody
_STATIONS = {
    "DIRTY": 0, "LOCAL": 1, "AHEAD": 1, "DRAFT": 2, "MERGE CONFLICTS": 2, "OPEN": 3,
    "CI FAILING": 3, "REVIEW": 4, "CHANGES REQUESTED": 4, "APPROVED": 5, "MERGED": 6, "CLOSED": 2,
}  # fmt: skip


def frame(service: Service, csrf: str) -> PageLayout:
    catalog = service.harness.sessions.catalog
    return PageLayout(
        host=socket.gethostname(),
        csrf=csrf,
        version=__version__,
        entries=rail(service.harness),
        total=catalog.count(),
    )


def rail(harness: Harness) -> list[RailEntry]:
    """Sessions that need somebody or run come in any case, then the newest ones."""
    catalog = harness.sessions.catalog
    waiting = {one.session: one for one in reversed(catalog.open_requests())}
    rows = {row.id: row for row in catalog.list(limit=LISTED)}
    for row in catalog.open_turns():
        rows.setdefault(row.id, row)
    for session in waiting:
        rows.setdefault(session, catalog.get(session))
    return [_entry(harness, row, waiting.get(row.id)) for row in rows.values()]


def _entry(harness: Harness, row: SessionRow, waiting: OpenRequest | None) -> RailEntry:
    asked = request_of(harness, waiting) if waiting else None
    command = asked.input.get("command") if isinstance(asked, PermissionRequested) else None
    asks = formatting.one_line(command if isinstance(command, str) else _title(asked), 300)
    return RailEntry(
        id=row.id,
        title=formatting.one_line(row.title or row.prompt or "New session", 120),
        agent=row.agent,
        folder=Path(row.cwd).name or row.cwd,
        updated_at=row.updated_at or row.created_at,
        running=row.open_turn is not None,
        running_since=row.updated_at or row.created_at,
        status=row.status,
        cost_usd=row.cost_usd,
        asks=asks if asked else None,
        asks_command=isinstance(command, str),
    )


def _title(asked: PermissionRequested | QuestionAsked | None) -> str:
    return formatting.asked(asked).replace("`", "") if asked else ""


def request_of(harness: Harness, row: OpenRequest) -> PermissionRequested | QuestionAsked | None:
    for entry in harness.sessions.log.since(row.session, row.seq - 1, 1):
        if isinstance(entry.event, PermissionRequested | QuestionAsked):
            return entry.event
    return None


def open_request(harness: Harness, row: SessionRow) -> ShownRequest | None:
    """The oldest open request of a session."""
    rows = harness.sessions.catalog.open_requests(row.id)
    for number, waiting in enumerate(rows):
        if asked := request_of(harness, waiting):
            folder = Path(row.cwd)
            project = project_of(folder)
            return ShownRequest(
                session=row.id,
                agent=row.agent,
                asked=asked,
                since=waiting.opened_at,
                folder=folder,
                project=project.name if project else None,
                others=len(rows) - number - 1,
            )
    return None


async def side(service: Service, row: SessionRow, transcript: Transcript) -> SideView:
    return SideView(
        totals=transcript.totals,
        branch=await _branch(service, row),
        files=changed_files(transcript),
        processes=tuple(_processes(service.harness, row)),
    )


async def _branch(service: Service, row: SessionRow) -> BranchView | None:
    try:
        async with asyncio.timeout(2):
            repository = await read_repository(Path(row.cwd))
            found = crumb(repository, await service.github.pull_request(repository))
    except (Exception, TimeoutError):  # a folder without a repository, or one that is gone
        return None
    status = found.status
    return BranchView(
        repository=found.repository.name,
        branch=found.branch,
        status=status.label,
        station=_STATIONS.get(status.label, 0),
        action=status.action,
        pull_request=found.pull_request.number if found.pull_request else None,
    )


def changed_files(transcript: Transcript) -> tuple[FileChange, ...]:
    """The files that the session changed, each once with all its lines."""
    found: dict[str, FileChange] = {}
    for turn in transcript.turns:
        for file in turn.files:
            before = found.get(file.path)
            found[file.path] = file if before is None else _both(before, file)
    return tuple(found.values())


def _both(before: FileChange, after: FileChange) -> FileChange:
    kept = after.change == "modified" and before.change == "added"
    return FileChange(
        path=after.path,
        change="added" if kept else after.change,
        added=(before.added or 0) + (after.added or 0),
        removed=(before.removed or 0) + (after.removed or 0),
    )


def _processes(harness: Harness, row: SessionRow) -> Sequence[ProcessView]:
    return [
        ProcessView(
            id=one.id,
            command=formatting.one_line(one.command, 200),
            running=one.live,
            started_at=one.started or "",
            outcome=one.status,
        )
        for one in harness.sessions.processes.list(row.id)
    ]


def composer(row: SessionRow, transcript: Transcript) -> ComposerView:
    settings = row.settings
    return ComposerView(
        session=row.id,
        modes=_choices(get_args(Mode)),
        approvals=_choices(get_args(Preset)),
        agent=row.agent,
        mode=transcript.mode or row.mode or "agent",
        approve=transcript.approve or str(settings.get("approve") or "ask"),
        running=row.open_turn is not None,
    )


def new_composer(harness: Harness, last: SessionRow | None) -> ComposerView:
    rows = harness.sessions.catalog.list(limit=200)
    folders = list(dict.fromkeys([*(row.cwd for row in rows), str(harness.cwd)]))
    agents = [name for name in harness.agents() if name != "replay"]
    return ComposerView(
        session=None,
        agents=_choices(agents),
        modes=_choices(get_args(Mode)),
        approvals=_choices(get_args(Preset)),
        folders=tuple(SelectOption(folder, _short(folder)) for folder in folders[:30]),
        agent=last.agent if last else "",
        mode="agent",
        approve="ask",
    )


def title_of(row: SessionRow) -> str:
    return tables.title(row.title or row.prompt or "New session")


def folder_of(row: SessionRow) -> str:
    return _short(row.cwd)


def _short(folder: str) -> str:
    home = str(Path.home())
    return f"~{folder[len(home) :]}" if folder.startswith(home + "/") else folder


def _choices(names: Sequence[str]) -> tuple[SelectOption, ...]:
    return tuple(SelectOption(name, name) for name in names)
