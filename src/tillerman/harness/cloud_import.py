"""Makes a session from a cloud agent's history, in a worktree of its branch if wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tillerman.core.agent_admin import NativeSession
from tillerman.core.errors import UsageError
from tillerman.harness.cloud import check_out_branch, cloud_agent, cloud_client
from tillerman.harness.launch_plan import launch_plan
from tillerman.sessions.import_native import adopt
from tillerman.store.session_row import SessionRow

if TYPE_CHECKING:
    from tillerman.harness.harness import Harness

_MOST = 100_000  # sessions of one agent that are searched


async def import_cloud_agent(
    harness: Harness, id: str, *, name: str | None = None, worktree: str | None = None
) -> SessionRow:
    """`worktree`: the name of a new worktree of its branch; "": named like the branch."""
    name = cloud_agent(harness.management, name)
    async with cloud_client(harness.management, name) as client:
        agent = await client.agent(id)
        history = await client.history(id)
    folder = harness.cwd
    if worktree is not None:
        if not agent.branches:
            raise UsageError(
                f"cloud agent {agent.id} has pushed no branch",
                hint="omit --worktree, or wait for it",
            )
        branch = agent.branches[-1]
        made = await check_out_branch(folder, harness.paths.worktrees, branch, worktree)
        folder = made.folder
    native = NativeSession(agent.id, agent.name, agent.updated or agent.created, str(folder))
    run_settings = launch_plan(harness.config, name, cwd=folder).run_settings
    return await adopt(harness.sessions, name, native, history, run_settings, harness.paths.spill)


def session_of(harness: Harness, id: str) -> SessionRow | None:
    """The session of this cloud agent, if there is one."""
    name = cloud_agent(harness.management)
    rows = harness.sessions.catalog.list(agent=name, limit=_MOST)
    return next((row for row in rows if row.native_id == id), None)
