"""Queries GitHub through the user's `gh`: one call at a time, with a timeout."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path

from tillerman.supervision.environment import child_environment
from tillerman.supervision.linux.which import find_program
from tillerman.workspace.branch.pull_request import (
    FIELDS,
    NO_BRANCH,
    NO_REMOTE,
    PullRequest,
    PullRequestUnavailable,
    parse_refusal,
    parse_view,
)
from tillerman.workspace.git.bounded_command import (
    CommandMissing,
    CommandOutput,
    CommandTimeout,
    query,
)
from tillerman.workspace.git.git import SAFE, configured
from tillerman.workspace.git.repository_state import Repository
from tillerman.workspace.git.safe_config import overrides

SECONDS = 15.0
REST = 300.0  # seconds without requests after a rate limit
MOST = 4 << 20
_TOKENS = ("GH_TOKEN", "GITHUB_TOKEN", "GH_CONFIG_DIR", "GH_HOST")
# With these alone, gh accepts any host that a repository names and sends them there.
_TOKENS_OF_A_HOST = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
_QUIET = {
    "GH_PROMPT_DISABLED": "1",
    "GH_NO_UPDATE_NOTIFIER": "1",
    "GH_NO_EXTENSION_UPDATE_NOTIFIER": "1",
    "GH_SPINNER_DISABLED": "1",
    "GH_PAGER": "cat",
    "PAGER": "cat",
    "NO_COLOR": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
}

NO_GH = PullRequestUnavailable(
    "no_gh",
    "gh is not installed, so pull requests cannot be shown",
    hint="install it from https://cli.github.com, then run `gh auth login`",
)


class GitHub:
    """One per process: concurrent callers wait for the running call, or share it."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._turn = asyncio.Lock()
        self._asked: dict[
            tuple[Path, str], asyncio.Task[PullRequest | PullRequestUnavailable | None]
        ] = {}
        self._rests_until = 0.0
        self._resting: PullRequestUnavailable | None = None

    async def pull_request(
        self, repository: Repository, *, seconds: float = SECONDS
    ) -> PullRequest | PullRequestUnavailable | None:
        """Returns the pull request of the current branch; None if it has none."""
        if repository.branch is None or repository.state.commit is None:
            return NO_BRANCH
        if repository.remote_url is None and not _has_remotes(repository):
            return NO_REMOTE
        key = (repository.top, repository.branch)
        task = self._asked.get(key)
        if task is None:
            task = asyncio.ensure_future(self._view(repository, seconds))
            self._asked[key] = task
            task.add_done_callback(lambda _: self._asked.pop(key, None))
        return await asyncio.shield(task)

    async def call(
        self, repository: Repository, *words: str, seconds: float = SECONDS, most: int = MOST
    ) -> CommandOutput:
        """Runs `gh WORDS`. Raises `CommandMissing` and `CommandTimeout`."""
        program = find_gh(self._environment)
        if program is None:
            raise CommandMissing("gh is not installed")
        env = self._variables(repository)
        async with self._turn:
            return await query(
                (program, *words), cwd=repository.top, env=env, seconds=seconds, most=most
            )

    async def _view(
        self, repository: Repository, seconds: float
    ) -> PullRequest | PullRequestUnavailable | None:
        if self._resting and time.monotonic() < self._rests_until:
            return self._resting
        try:
            said = await self.call(
                repository, "pr", "view", "--json", ",".join(FIELDS), seconds=seconds
            )
        except CommandMissing:
            return NO_GH
        except CommandTimeout as slow:
            return PullRequestUnavailable(
                "slow", f"{slow}", hint="check the network; `gh pr view` shows details"
            )
        if said.cut:
            return PullRequestUnavailable(
                "failed", "the output of gh is too large", hint="run `gh pr view` by hand"
            )
        if said.code == 0:
            return parse_view(said.out)
        refusal = parse_refusal(said.code, said.err.decode("utf-8", "replace"))
        if refusal and refusal.why == "rate_limited":
            self._resting, self._rests_until = refusal, time.monotonic() + REST
        return refusal

    def _variables(self, repository: Repository) -> dict[str, str]:
        pairs = [*overrides(repository.config), *SAFE.items()]
        nowhere = {"GIT_ALLOW_PROTOCOL": "none"}  # gh connects by itself; its git must not fetch
        return gh_variables(self._environment) | nowhere | configured(pairs)


def gh_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment variables for gh and the git that it runs."""
    names = [*_TOKENS, *(_TOKENS_OF_A_HOST if environment.get("GH_HOST") else ())]
    return child_environment(environment, names).variables | _QUIET


def find_gh(environment: Mapping[str, str]) -> str | None:
    """Finds gh only in absolute folders of PATH, so the current folder cannot provide it."""
    path = environment.get("PATH", os.defpath).split(os.pathsep)
    return find_program("gh", os.pathsep.join(part for part in path if part.startswith("/")))


def _has_remotes(repository: Repository) -> bool:
    return any(each.key.startswith("remote.") for each in repository.config)
