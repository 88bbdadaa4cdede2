"""`tillerman cloud import`: a session from a cloud agent's history, in a worktree of its branch."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from tillerman.core.agent_admin import NativeSession
from tillerman.core.cloud import CloudAgent
from tillerman.core.errors import UsageError
from tillerman.harness.cloud import check_out_branch, cloud_agent, cloud_client
from tillerman.harness.launch_plan import launch_plan
from tillerman.sessions.import_native import adopt
from tillerman.surfaces.cli import open_harness
from tillerman.surfaces.cli.views.output import emit, emit_json, write


async def run(options: Namespace) -> int:
    async with open_harness.harness(options) as harness:
        name = cloud_agent(harness.management, options.agent)
        async with cloud_client(harness.management, name) as client:
            agent = await client.agent(options.id)
            history = await client.history(options.id)
        folder = harness.cwd
        if options.worktree is not None:
            folder = await _worktree(agent, folder, harness.paths.worktrees, options.worktree)
        updated = agent.updated or agent.created
        native = NativeSession(agent.id, agent.name, updated, str(folder))
        run_settings = launch_plan(harness.config, name, cwd=folder).run_settings
        row = await adopt(
            harness.sessions, name, native, history, run_settings, harness.paths.spill
        )
    if options.json:
        emit_json({"session": row.id, "cloud_agent": agent.id, "cwd": row.cwd})
    else:
        emit(row.id)
    return 0


async def _worktree(agent: CloudAgent, folder: Path, under: Path, name: str) -> Path:
    if not agent.branches:
        raise UsageError(
            f"cloud agent {agent.id} has pushed no branch", hint="omit --worktree, or wait for it"
        )
    made = await check_out_branch(folder, under, agent.branches[-1], name)
    write(sys.stderr, f"worktree {made.path} on branch {made.branch}\n")
    return made.folder
