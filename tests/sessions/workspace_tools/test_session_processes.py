"""Workspace processes of a session that is no longer served."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.sessions.session_desk import Desk
from tillerman.core.workspace_process import WorkspaceProcess
from tillerman.store.session_row import SessionRow
from tillerman.workspace.processes.process_place import ProcessPlace
from tillerman.workspace.processes.shell_processes import Processes


async def left_running(desk: Desk, linger: float) -> tuple[SessionRow, WorkspaceProcess]:
    row = SessionRow(id="old", agent="mock", cwd=str(desk.project), created_at="2026-01-01T00:00Z")
    desk.sessions.catalog.create(row).result(10)
    place = ProcessPlace(desk.project, desk.paths.processes, desk.paths.spawns, linger=linger)
    processes = await Processes.open("old", desk.sessions.processes, place)
    env = {"PATH": os.environ["PATH"]}
    started = await processes.start(
        "echo said; sleep 60", cwd=desk.project, env=env, mode="background"
    )
    await processes.release()
    return row, started


async def test_a_deleted_session_ends_its_processes_and_removes_their_output(
    desk: Desk,
) -> None:
    row, started = await left_running(desk, linger=60)
    assert Path(f"/proc/{started.pid}").exists()
    await desk.sessions.delete(row)
    assert not Path(f"/proc/{started.pid}").exists()
    assert desk.sessions.processes.list() == []
    assert not (desk.paths.processes / "old").exists()


async def test_any_start_records_the_end_of_unowned_processes(desk: Desk) -> None:
    _, started = await left_running(desk, linger=2)
    await desk.sessions.recover()
    (running,) = desk.sessions.processes.list()
    assert running.live  # its lease is not over
    async with asyncio.timeout(10):
        while list(desk.paths.spawns.iterdir()):  # noqa: ASYNC110  it ends in its own time
            await asyncio.sleep(0.02)
    await desk.sessions.recover()
    (ended,) = desk.sessions.processes.list()
    assert (ended.id, ended.status) == (started.id, "killed")
    assert ended.why == "no server reclaimed it in time"
