"""A session's workspace processes go when it is deleted."""

from __future__ import annotations

import os
from pathlib import Path

from session_desk import Desk

from bridle.store.session_row import SessionRow
from bridle.workspace.processes import Processes


async def test_a_deleted_session_ends_its_processes_and_takes_their_output_along(
    tmp_path: Path,
) -> None:
    desk = Desk(tmp_path)
    desk.project.mkdir(exist_ok=True)
    row = SessionRow(id="old", agent="mock", cwd=str(desk.project), created_at="2026-01-01T00:00Z")
    desk.sessions.catalog.create(row).result(10)
    processes = await Processes.open(
        "old",
        desk.sessions.processes,
        workspace=desk.project,
        folder=desk.paths.processes,
        records=desk.paths.spawns,
    )
    started = await processes.start(
        "echo said; sleep 60", cwd=desk.project, env={"PATH": os.environ["PATH"]}, mode="background"
    )
    await processes.let_go()
    assert Path(f"/proc/{started.pid}").exists()
    await desk.sessions.delete(row)
    assert not Path(f"/proc/{started.pid}").exists()
    assert desk.sessions.processes.list() == []
    assert not (desk.paths.processes / "old").exists()
    await desk.close()
