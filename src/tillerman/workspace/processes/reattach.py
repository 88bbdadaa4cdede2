"""Finds the processes again that ran when the last server of their session ended."""

from __future__ import annotations

from msgspec.structs import replace

from tillerman.core.workspace_process import Mode
from tillerman.supervision.client.orphan_sweep import sweep_when_free
from tillerman.workspace.processes.live_processes import LiveProcess, LiveProcesses
from tillerman.workspace.processes.process_place import ProcessPlace
from tillerman.workspace.processes.process_records import ProcessRecords, resolve_lost
from tillerman.workspace.processes.session_warden import SessionWarden


async def reattach(
    session: str,
    registry: ProcessRecords,
    place: ProcessPlace,
    live: LiveProcesses,
    session_warden: SessionWarden,
) -> None:
    """Follows what its warden still runs; records the rest as lost."""
    rows = {row.id: row for row in registry.list(session, live=True)}
    for marker in sorted({row.warden for row in rows.values() if row.warden}):
        warden = await session_warden.rejoin(marker)
        if warden is None:
            continue
        for name, job in warden.running.items():
            if name not in rows:  # its id was never returned
                await job.kill()
                continue
            row = rows.pop(name)
            mode: Mode = "background" if job.lasting else row.mode
            process = live.watch(LiveProcess(replace(row, mode=mode), job))
            if job.pid:
                await live.record_reattached(process)
            else:
                live.run_in_background(live.record_reattached(process))
    held = session_warden.marker
    for row in rows.values():
        if row.warden and row.warden != held:
            await sweep_when_free(place.records / row.warden)
        await resolve_lost(row, registry, place.folder)
