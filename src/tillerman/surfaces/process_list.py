"""Workspace processes of all sessions: list, find, refresh and end them, for every surface."""

from __future__ import annotations

import signal
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tillerman.core.errors import TillermanError, UsageError
from tillerman.core.workspace_process import Status, WorkspaceProcess

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness


async def listed(
    harness: Harness, session: str | None = None, *, ended: bool = False
) -> list[WorkspaceProcess]:
    """The running processes of a session or of all; `ended`: also those of the last day."""
    await resolve_lost(harness)
    rows = [refreshed(harness, row) for row in harness.sessions.processes.list(session)]
    return [row for row in rows if ended or row.live]


async def end(harness: Harness, process: WorkspaceProcess, number: signal.Signals | None) -> None:
    """Sends the signal, by default that which ends it. Raises if it has ended already."""
    from tillerman.supervision.client import foreign_warden

    if not process.live:
        raise ended_already(process)
    warden = harness.paths.spawns / (process.warden or "")
    if number in (None, signal.SIGKILL):
        received = await foreign_warden.kill(warden, process.id)
    else:
        received = await foreign_warden.signal(warden, process.id, number)
    if received:
        return
    await resolve_lost(harness)
    process = find(harness, process.id)
    if not process.live:
        raise ended_already(process)
    raise TillermanError(
        f"the supervisor of process {process.id} does not respond",
        hint=f"its pid is {process.pid}; `tillerman doctor` shows leftover processes",
    )


def find(harness: Harness, named: str) -> WorkspaceProcess:
    table = harness.sessions.processes
    if exact := table.get(named):
        return refreshed(harness, exact)
    found = [row for row in table.list() if row.id.startswith(named)]
    if len(found) == 1:
        return refreshed(harness, found[0])
    if not found:
        raise UsageError(
            f"no process matches {named!r}",
            hint="`tillerman ps --all` lists those of the last day",
        )
    some = ", ".join(row.id for row in found[:5])
    raise UsageError(
        f"{named!r} is ambiguous: it matches {len(found)} processes: {some}",
        hint="give the whole id: `tillerman ps` lists them",
    )


def ended_already(process: WorkspaceProcess) -> TillermanError:
    return TillermanError(
        f"process {process.id} has already ended: {status_text(process)}",
        hint=f"`tillerman logs {process.id}` shows its output",
    )


async def resolve_lost(harness: Harness) -> None:
    """Records processes that ended unsupervised, so that they are not listed as running."""
    from tillerman.workspace.processes.process_records import resolve_all_lost

    await resolve_all_lost(
        harness.sessions.processes, harness.paths.processes, harness.paths.spawns
    )


def folder_of(harness: Harness, process: WorkspaceProcess) -> Path:
    return harness.paths.processes / process.session / process.id


def refreshed(harness: Harness, process: WorkspaceProcess) -> WorkspaceProcess:
    """Refreshes the row from the process folder: the session's owner may have died before."""
    if not process.live:
        return process
    from msgspec.structs import replace

    from tillerman.core.timestamps import rfc3339
    from tillerman.supervision.client.child_processes import ProcessEnded
    from tillerman.workspace.processes.process_records import sizes_on_disk

    folder = folder_of(harness, process)
    end = ProcessEnded.read(folder)
    sizes = end.sizes if end else sizes_on_disk(folder)
    process = replace(
        process,
        stdout_bytes=sizes.stdout,
        stderr_bytes=sizes.stderr,
        stdout_kept=sizes.stdout_kept,
        stderr_kept=sizes.stderr_kept,
    )
    if end is None:
        return process
    code = end.exit.code
    status: Status = "killed" if code is None else "failed" if code else "finished"
    ended_at = rfc3339(datetime.fromtimestamp(end.at, UTC))
    return replace(process, status=status, code=code, signal=end.exit.signal, ended_at=ended_at)


def status_text(row: WorkspaceProcess) -> str:
    match row.status:
        case "failed" if row.code is not None:
            return f"failed ({row.code})"
        case "killed" if row.signal is not None:
            with suppress(ValueError):
                return f"killed ({signal.Signals(row.signal).name})"
    return row.status


def for_programs(harness: Harness, row: WorkspaceProcess) -> dict[str, Any]:
    from msgspec.structs import asdict

    told = {name: value for name, value in asdict(row).items() if name != "warden"}
    return told | {"folder": str(folder_of(harness, row))}
