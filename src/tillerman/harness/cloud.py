"""Cloud agents for all surfaces: the client of an agent, and what a launch works on."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from tillerman.core.cloud import CloudAccess, CloudBranch, CloudClient
from tillerman.core.errors import TillermanError, Unsupported, UsageError
from tillerman.core.events import Notice
from tillerman.harness.agent_admin import AgentAdmin
from tillerman.sessions.run_settings import LaunchPlan
from tillerman.workspace.branch.next_action import run_command
from tillerman.workspace.git.repository_state import Repository, query_git, read_repository
from tillerman.workspace.git.worktree import Worktree, create


class CloudPlace(NamedTuple):
    """The repository and branch of a folder, as the cloud can reach them."""

    repository: str
    ref: str
    warnings: tuple[str, ...] = ()  # what the cloud does not see


def cloud_agent(management: AgentAdmin, name: str | None = None) -> str:
    """The agent of this name, or the only one that works in a cloud."""
    if name:
        if not isinstance(management.agent(name), CloudAccess):
            others = ", ".join(management.able(CloudAccess)) or "none does"
            raise Unsupported(name, "cloud agents", hint=f"these do: {others}")
        return name
    match management.able(CloudAccess):
        case [one]:
            return one
        case []:
            raise UsageError("no agent works in a cloud", hint="`tillerman agents` lists them")
        case several:
            raise UsageError("several agents work in a cloud", hint=f"-a {' or -a '.join(several)}")


@asynccontextmanager
async def cloud_client(
    management: AgentAdmin, name: str | None = None
) -> AsyncIterator[CloudClient]:
    agent = management.agent(cloud_agent(management, name))
    assert isinstance(agent, CloudAccess)
    async with management.agent_commands(agent) as run, agent.cloud(run) as client:
        yield client


async def place_of(folder: Path, ref: str | None = None) -> CloudPlace:
    """Raises `UsageError` where the remote or the branch is ambiguous, or not pushed."""
    repository = await read_repository(folder)
    if not repository.remote or not repository.remote_url:
        raise UsageError(
            f"{repository.name} has no remote, or several and none is `origin`",
            hint="give the repository's URL, or `git branch --set-upstream-to`",
        )
    if ref:
        return CloudPlace(repository.remote_url, ref)
    return CloudPlace(repository.remote_url, _pushed_branch(repository), _unseen(repository))


def _pushed_branch(repository: Repository) -> str:
    state = repository.state
    if state.branch is None:
        raise UsageError(
            f"{repository.name} is on no branch", hint="check one out, or give the branch's name"
        )
    prefix = f"{repository.remote}/"
    if state.upstream and state.upstream.startswith(prefix) and state.behind is not None:
        return state.upstream.removeprefix(prefix)
    raise UsageError(
        f"branch {state.branch} is not pushed to {repository.remote}",
        hint=f"`git push -u {repository.remote} {state.branch}`, or give another branch",
    )


def _unseen(repository: Repository) -> tuple[str, ...]:
    state, found = repository.state, []
    if state.ahead:
        commits = "1 commit is" if state.ahead == 1 else f"{state.ahead} commits are"
        found.append(f"{commits} not pushed: the cloud agent does not see them")
    if state.dirty:
        found.append("there are changes without a commit: the cloud agent does not see them")
    return tuple(found)


async def check_out_branch(
    folder: Path, under: Path, branch: CloudBranch, name: str = ""
) -> Worktree:
    """Fetches the branch of a cloud agent, and creates a worktree at its last commit."""
    repository = await read_repository(folder)
    if not repository.remote:
        raise UsageError(
            f"{repository.name} has no remote to fetch {branch.branch} from",
            hint="run this in a clone of the agent's repository",
        )
    ref = f"refs/heads/{branch.branch}"
    command = ("git", "fetch", "--quiet", "--no-tags", "--", repository.remote, ref)
    done = await run_command(repository, command, os.environ)
    if done.code:
        raise UsageError(
            f"git cannot fetch {branch.branch} from {repository.remote}: {done.complaint}",
            hint=f"run this in a clone of {branch.repository}",
        )
    found = await query_git(repository, "rev-parse", "--verify", "--quiet", "FETCH_HEAD^{commit}")
    made_up = re.sub(r"[^A-Za-z0-9_-]+", "-", branch.branch).strip("-") or "cloud"
    return await create(folder, under, name or made_up, os.fsdecode(found.out).strip())


async def with_place(made: LaunchPlan) -> LaunchPlan:
    """Adds the repository and branch of the folder to the options, if they name none."""
    given = made.spec.native.options
    if any(given.get(name) for name in ("repository", "pull_request", "no_repository")):
        return made
    try:
        place = await place_of(made.spec.cwd, str(given["ref"]) if given.get("ref") else None)
    except TillermanError as error:
        if not error.hint:
            error.hint = "set `repository` and `ref` for this agent in the config"
        raise
    options = {**given, "repository": place.repository, "ref": place.ref}
    native = replace(made.spec.native, options=options)
    notices = [Notice(level="warning", kind="settings", text=text) for text in place.warnings]
    run_settings = replace(made.run_settings, notices=(*made.run_settings.notices, *notices))
    return made._replace(spec=replace(made.spec, native=native), run_settings=run_settings)
