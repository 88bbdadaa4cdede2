"""Records the end of processes, and resolves and expires abandoned ones of any session.

A process whose server and warden have ended is resolved by the next server that starts, kept for a
day after its end, and removed with its session.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from tillerman.core.timestamps import rfc3339
from tillerman.core.workspace_process import Status, WorkspaceProcess
from tillerman.supervision.client.child_processes import ProcessEnded, Sizes
from tillerman.supervision.client.orphan_sweep import sweep_one, sweep_when_free
from tillerman.supervision.client.warden_client import WardenClient
from tillerman.supervision.linux.process_table import boot_id, find
from tillerman.supervision.warden import exit_file

STORED_FOR = timedelta(hours=24)  # after its end
PREFIX = "p"  # of an id

WHY = {
    exit_file.LEASE: "no server reclaimed it in time",
    exit_file.HARNESS: "its server ended",
    exit_file.WARDEN: "its warden was killed",
    exit_file.KEEPER: "its keeper was killed",
    exit_file.REQUESTED: "it was asked to end",
}


class ProcessRecords(Protocol):
    """Storage of process records; the store's table implements it."""

    def get(self, process: str) -> WorkspaceProcess | None: ...
    def list(
        self, session: str | None = None, *, live: bool = False
    ) -> Sequence[WorkspaceProcess]: ...
    def expired(self, before: str) -> Sequence[WorkspaceProcess]: ...
    def add(self, process: WorkspaceProcess) -> Future[None]: ...
    def change(self, process: str, **fields: Any) -> Future[bool]: ...
    def remove(self, processes: Sequence[str]) -> Future[None]: ...


async def resolve_all_lost(registry: ProcessRecords, folder: Path, records: Path) -> None:
    """Records the end of all processes without a live warden, of any session."""
    for row in registry.list(live=True):
        is_owned = False
        if row.warden:
            is_owned = await asyncio.to_thread(_is_owned, records / row.warden)
        if not is_owned:
            await resolve_lost(row, registry, folder)


async def expire(registry: ProcessRecords, folder: Path) -> None:
    """Removes processes that ended a day ago, with their output."""
    rows = registry.expired(rfc3339(datetime.now(UTC) - STORED_FOR))
    for row in rows:
        path = folder / row.session / row.id
        await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
        with contextlib.suppress(OSError):
            path.parent.rmdir()  # fails if it holds others
    if rows:
        await asyncio.wrap_future(registry.remove([row.id for row in rows]))
    for path in await asyncio.to_thread(_old, folder):
        if registry.get(path.name) is None:  # its server was killed before it was recorded
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)


async def forget(session: str, registry: ProcessRecords, folder: Path, records: Path) -> None:
    """Ends and removes all processes of a deleted session that no server runs."""
    rows = registry.list(session)
    for marker in sorted({row.warden for row in rows if row.live and row.warden}):
        if warden := await WardenClient.rejoin(records / marker):
            await warden.close()
        await sweep_when_free(records / marker)
    await asyncio.to_thread(shutil.rmtree, folder / session, ignore_errors=True)
    await asyncio.wrap_future(registry.remove([row.id for row in rows]))


def _old(folder: Path) -> list[Path]:
    before = time.time() - STORED_FOR.total_seconds()
    found = []
    for path in folder.glob(f"*/{PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < before:
                found.append(path)
    return found


def sizes_on_disk(folder: Path) -> Sizes:
    found = []
    for name in exit_file.FILES:
        try:
            found.append((folder / name).stat().st_size)
        except OSError:
            found.append(0)
    output, error = found
    return Sizes(output, error, output, error)


async def resolve_lost(row: WorkspaceProcess, registry: ProcessRecords, folder: Path) -> None:
    """Records the end of a process without a live warden."""
    place = folder / row.session / row.id
    if end := ProcessEnded.read(place):
        fields = end_fields(end, "")
    elif row.boot == boot_id() and _runs(row):
        return  # it could not be killed: neither lost nor ended
    else:
        fields = size_fields(sizes_on_disk(place)) | {
            "status": "lost",
            "ended_at": now(),
            "why": "the machine was restarted"
            if row.boot != boot_id()
            else "it was not supervised when it ended",
        }
    await asyncio.wrap_future(registry.change(row.id, **fields))


def _runs(row: WorkspaceProcess) -> bool:
    found = find(row.pid) if row.pid else None
    return found is not None and not found.dead and found.start == row.started


def _is_owned(warden: Path) -> bool:
    """Returns whether its lease is held. If not, its remaining processes are killed."""
    return warden.exists() and sweep_one(warden) is None and warden.exists()


def end_fields(end: ProcessEnded, intent: str) -> dict[str, Any]:
    status: Status = (
        "killed" if end.exit.code is None else "finished" if end.exit.code == 0 else "failed"
    )
    told = intent if end.why == exit_file.REQUESTED else ""
    return size_fields(end.sizes) | {
        "status": status,
        "code": end.exit.code,
        "signal": end.exit.signal,
        "ended_at": rfc3339(datetime.fromtimestamp(end.at, UTC)),
        "why": (told or WHY.get(end.why)) if status == "killed" else None,
    }


def size_fields(sizes: Sizes) -> dict[str, Any]:
    return {
        "stdout_bytes": sizes.stdout,
        "stderr_bytes": sizes.stderr,
        "stdout_kept": sizes.stdout_kept,
        "stderr_kept": sizes.stderr_kept,
    }


def now() -> str:
    return rfc3339(datetime.now(UTC))
