"""Creates a git worktree for a session, on a new branch `tillerman/NAME`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import secrets
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from tillerman.core.errors import UsageError
from tillerman.paths import make_private
from tillerman.workspace.git.git import Deadline, GitFailed, git, work_tree

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*")
_SECONDS = 120.0  # a large checkout takes long
_TRUSTED = ("system", "global")


@dataclass(frozen=True)
class Worktree:
    path: Path
    folder: Path  # the session's folder inside it
    branch: str
    base: str  # its first commit
    repository: Path
    notes: tuple[str, ...] = ()

    @property
    def removal(self) -> str:
        """Returns the shell command that removes the worktree and its branch."""
        top, path = shlex.quote(str(self.repository)), shlex.quote(str(self.path))
        remove = f"git -C {top} worktree remove --force {path}"  # an agent leaves untracked files
        return f"{remove} && git -C {top} branch -D {self.branch}"


async def create(
    folder: Path, under: Path, name: str | None = None, start: str | None = None
) -> Worktree:
    """Creates a worktree of the repository around `folder`; `under` is tillerman's folder.

    It starts at the commit `start`; None: at the current one.
    """
    return await asyncio.to_thread(_create, folder, under, name or _new_name(), start)


def _create(folder: Path, under: Path, name: str, start: str | None) -> Worktree:
    if not _NAME.fullmatch(name) or name.endswith(".lock"):
        raise UsageError(
            f"{name!r} is not a valid worktree name",
            hint="use letters, digits, `-`, `_` and single dots between them",
        )
    deadline = Deadline(_SECONDS)
    tree = work_tree(folder, deadline)
    if tree is None:
        raise UsageError(
            f"{folder} is not in a git repository, so it has no worktrees",
            hint="run `git init` there, or omit --worktree",
        )
    branch, path = f"tillerman/{name}", under / repository_label(tree.top) / name
    base = start or _head(tree.top, deadline)
    if path.exists() or _exists(tree.top, f"refs/heads/{branch}", deadline):
        raise UsageError(
            f"a worktree or branch named {branch!r} already exists",
            hint=f"choose another name, or continue in {path}",
        )
    make_private(path.parent)
    try:
        config = tamed_filters(tree.top, deadline)
        notes = tuple(missing_notes(tree.top, deadline, config))
        words = ("worktree", "add", "--quiet", "-b", branch, str(path), base)
        git(tree.top, *words, deadline=deadline, config=config, helpers=True)
    except GitFailed as error:
        raise UsageError(
            f"git could not create a worktree of {tree.top}: {error}",
            hint="`git worktree list` shows those that there are",
        ) from None
    inside = path / folder.resolve().relative_to(tree.top.resolve())
    return Worktree(path, inside if inside.is_dir() else path, branch, base, tree.top, notes)


def _new_name() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"


def repository_label(top: Path) -> str:
    """Returns a label that is unique for repositories of the same name."""
    return f"{top.name}-{hashlib.sha256(os.fsencode(top)).hexdigest()[:8]}"


def _head(top: Path, deadline: Deadline) -> str:
    try:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", "HEAD^{commit}")
        return git(top, *words, deadline=deadline).decode().strip()
    except GitFailed:
        raise UsageError(
            f"{top} has no commit yet, so a worktree would be empty",
            hint="commit first, or omit --worktree",
        ) from None


def _exists(top: Path, ref: str, deadline: Deadline) -> bool:
    try:
        git(top, "show-ref", "--verify", "--quiet", "--", ref, deadline=deadline)
    except GitFailed:
        return False
    return True


def tamed_filters(top: Path, deadline: Deadline) -> dict[str, str]:
    """Overrides the filters of the repository; the user's own filters stay, as Git LFS needs.

    An agent can write a repository's config, and a checkout would run the programs named there.
    """
    try:
        words = ("config", "-z", "--show-scope", "--get-regexp", r"^filter\..")
        fields = os.fsdecode(git(top, *words, deadline=deadline)).split("\0")[:-1]
    except GitFailed:
        return {}
    ours: dict[str, str] = {}
    theirs: set[str] = set()
    for scope, setting in zip(fields[::2], fields[1::2], strict=True):
        key, _, value = setting.partition("\n")
        if scope in _TRUSTED:
            ours[key] = value
        else:
            theirs.add(key)
    tamed = {key: ours.get(key, "") for key in theirs}
    return tamed | {f"{key.rpartition('.')[0]}.required": "false" for key in theirs}


def missing_notes(top: Path, deadline: Deadline, config: dict[str, str]) -> list[str]:
    """Says what a new worktree of this repository will not have."""
    words = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all")
    changed = git(top, *words, deadline=deadline, config=config).count(b"\0")
    notes = []
    if changed:
        files = "1 uncommitted file" if changed == 1 else f"{changed} uncommitted files"
        verb = "is" if changed == 1 else "are"
        notes.append(f"{files} of {top} {verb} not in it: it starts from the last commit")
    if (top / ".gitmodules").is_file():
        notes.append("submodules are not checked out in it: run `git submodule update --init`")
    return notes
