"""Reads the state of a repository: branch, changes, and distance from its upstream."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tillerman.config.project_trust import repository as lies_in
from tillerman.core.errors import TillermanError, UsageError
from tillerman.workspace.git.bounded_command import (
    CommandMissing,
    CommandOutput,
    CommandTimeout,
    query,
)
from tillerman.workspace.git.git import SAFE, safe_environment
from tillerman.workspace.git.safe_config import (
    LISTING,
    GitSetting,
    branch_remote,
    overrides,
    remotes,
    settings,
)

SECONDS = 10.0  # for one command
MOST_STATUS = 16 << 20  # bytes; beyond that, dirty files are reported as "more"
MOST_AHEAD = 1_000  # commits that are counted
MOST_OVERRIDES = 500
CONFLICTS_NAMED = 100
_STATUS = (
    "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal",
    # git would enter each submodule and obey its config
    "--ignore-submodules=dirty",
)  # fmt: skip
_DETACHED = "(detached)"


@dataclass(frozen=True)
class WorkState:
    """The state of a work tree from `git status`."""

    branch: str | None = None  # None: detached
    commit: str | None = None  # None: unborn branch without a commit
    upstream: str | None = None
    ahead: int | None = None  # None: there is nothing to compare with
    behind: int | None = None
    changed: int = 0
    untracked: int = 0
    conflicted: int = 0
    conflicts: tuple[str, ...] = ()  # the first of those paths
    more: bool = False  # there is more than was counted

    @property
    def dirty(self) -> bool:
        return bool(self.changed or self.untracked or self.conflicted)


@dataclass(frozen=True)
class Repository:
    top: Path
    name: str
    state: WorkState
    remote: str | None = None  # the branch is pushed to it
    remote_url: str | None = None
    config: tuple[GitSetting, ...] = field(default=(), repr=False)

    @property
    def branch(self) -> str | None:
        return self.state.branch


class NoRepository(UsageError):
    """The folder is not in a work tree of a git repository."""


async def read_repository(folder: Path, *, seconds: float = SECONDS) -> Repository:
    """Reads the state within a few time limits; never runs what a repository names."""
    top, name = await _place(folder, seconds)
    config = await read_config(top, seconds=seconds)
    pairs = [*overrides(config), *SAFE.items()]
    said = await _git(top, *_STATUS, seconds=seconds, pairs=pairs, most=MOST_STATUS)
    if said.code and not said.cut:
        raise TillermanError(
            f"git cannot report the status of {top}: {said.complaint}",
            hint=f"`git -C {top} status` shows details",
        )
    state = parse_status(said.out, cut=said.cut)
    if state.branch == _DETACHED:  # which may also be the name of a branch
        head = await _git(top, "symbolic-ref", "--quiet", "HEAD", seconds=seconds)
        state = replace(state, branch=None if head.code else state.branch)
    known = remotes(config)
    remote = _remote(config, known, state.branch)
    if state.branch and state.commit and state.ahead is None and known:
        state = replace(state, ahead=await _unpublished(top, seconds))
    return Repository(top, name, state, remote, known.get(remote or ""), tuple(config))


async def read_config(top: Path, *, seconds: float = SECONDS) -> list[GitSetting]:
    """Reads the whole config or fails: unread settings could not be overridden."""
    listed = await _git(top, *LISTING, seconds=seconds)
    config = settings(listed.out)
    if listed.cut or len(overrides(config)) > MOST_OVERRIDES:
        raise TillermanError(
            f"the git config of {top} is too large", hint="`git config --list` shows it"
        )
    if listed.code:
        raise TillermanError(
            f"git cannot read the config of {top}: {listed.complaint}", hint="fix the config file"
        )
    return config


async def read_status(top: Path, *, seconds: float) -> bytes:
    """Returns what `git status` reports of a work tree; raises `ValueError` if it does not."""
    try:
        config = await read_config(top, seconds=seconds)
        pairs = [*overrides(config), *SAFE.items()]
        said = await _git(top, *_STATUS, seconds=seconds, pairs=pairs, most=MOST_STATUS)
    except TillermanError as error:
        raise ValueError(error.message) from error
    if said.code or said.cut:
        raise ValueError(said.complaint)
    return said.out


def parse_status(told: bytes, *, cut: bool = False) -> WorkState:
    """Parses `git status --porcelain=v2 --branch -z`; unknown lines are skipped."""
    records = os.fsdecode(told).split("\0")
    records.pop()  # empty, or the truncated last record
    head: dict[str, str] = {}
    changed = untracked = conflicted = 0
    conflicts: list[str] = []
    rest = iter(records)
    for record in rest:
        match record[:2]:
            case "# ":
                key, _, value = record[2:].partition(" ")
                head[key] = value
            case "1 ":
                changed += 1
            case "2 ":
                changed += 1
                next(rest, None)  # its old path
            case "u ":
                conflicted += 1
                if len(conflicts) < CONFLICTS_NAMED:
                    conflicts.append(record.split(" ", 10)[-1])
            case "? ":
                untracked += 1
    oid = head.get("branch.oid", "(initial)")
    ahead, behind = _distance(head.get("branch.ab", ""))
    return WorkState(
        branch=head.get("branch.head"),
        commit=None if oid == "(initial)" else oid,
        upstream=head.get("branch.upstream"),
        ahead=ahead,
        behind=behind,
        changed=changed,
        untracked=untracked,
        conflicted=conflicted,
        conflicts=tuple(conflicts),
        more=cut,
    )


def _distance(text: str) -> tuple[int | None, int | None]:
    ahead, _, behind = text.partition(" ")
    try:
        return int(ahead), -int(behind)
    except ValueError:
        return None, None


async def _place(folder: Path, seconds: float) -> tuple[Path, str]:
    words = ("rev-parse", "--path-format=absolute")
    said = await _git(folder, *words, "--is-bare-repository", "--show-toplevel", seconds=seconds)
    if said.code:
        raise _nowhere(folder, said)
    top = Path(os.fsdecode(said.out).partition("\n")[2].removesuffix("\n"))
    if lies_in(folder.resolve()) != top:  # a repository must not choose the folder
        raise NoRepository(
            f"the git config sets {top} as the work tree, which is a different folder",
            hint="`git config --show-origin core.worktree` shows where it is set",
        )
    common = await _git(folder, *words, "--git-common-dir", seconds=seconds)
    git_folder = Path(os.fsdecode(common.out).removesuffix("\n"))
    if git_folder.name == ".git":
        return top, git_folder.parent.name or top.name  # of a worktree: its main repository
    return top, git_folder.stem if git_folder.suffix == ".git" else top.name


def _nowhere(folder: Path, said: CommandOutput) -> NoRepository:
    if said.out.startswith(b"true"):
        return NoRepository(
            f"{folder} is a bare repository without a work tree",
            hint="`git worktree add DIR` creates a work tree",
        )
    if b"dubious ownership" in said.err:
        return NoRepository(
            f"{folder} belongs to another user, so git does not trust it",
            hint=f"to trust it: git config --global --add safe.directory {folder}",
        )
    if b"must be run in a work tree" in said.err:
        return NoRepository(
            f"{folder} is inside a repository's own files", hint="change to the work tree"
        )
    if b"not a git repository" in said.err:
        return NoRepository(
            f"{folder} is not in a git repository",
            hint="change to one, use --cwd DIR, or create one with `git init`",
        )
    return NoRepository(f"git cannot read {folder}: {said.complaint}", hint="`git status` there")


def _remote(config: list[GitSetting], known: Mapping[str, str], branch: str | None) -> str | None:
    names = list(known)
    asked = branch_remote(config, branch) if branch else None
    if asked in names:
        return asked
    return "origin" if "origin" in names else names[0] if len(names) == 1 else None


async def _unpublished(top: Path, seconds: float) -> int | None:
    """Counts commits of the branch that no remote has, as of the last fetch."""
    words = ("rev-list", "--count", f"--max-count={MOST_AHEAD}", "HEAD", "--not", "--remotes")
    said = await _git(top, *words, seconds=seconds)
    try:
        return int(said.out)
    except ValueError:
        return None


async def _git(
    where: Path,
    *words: str,
    seconds: float,
    pairs: list[tuple[str, str]] | None = None,
    most: int = 4 << 20,
    env: Mapping[str, str] = {},
) -> CommandOutput:
    argv = ("git", "--no-optional-locks", "--no-pager", *words)
    safe = safe_environment(SAFE.items() if pairs is None else pairs)
    try:
        return await query(argv, cwd=where, env={**safe, **env}, seconds=seconds, most=most)
    except CommandMissing as error:
        if not where.is_dir():
            raise NoRepository(
                f"{where}: no such folder", hint="create it, or give another folder"
            ) from None
        raise TillermanError(
            str(error), hint="install it from https://git-scm.com/downloads"
        ) from None
    except CommandTimeout as error:
        raise TillermanError(
            str(error), hint="run `git status` by hand to see whether it is slow too"
        ) from None


async def query_git(
    repository: Repository, *words: str, most: int = 4 << 20, env: Mapping[str, str] = {}
) -> CommandOutput:
    """Runs one more git command on it, without the programs that the repository names."""
    pairs = [*overrides(repository.config), *SAFE.items()]
    return await _git(repository.top, *words, seconds=SECONDS, pairs=pairs, most=most, env=env)
