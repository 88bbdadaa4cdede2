"""A separate worktree for a session."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.core.errors import UsageError
from tillerman.workspace.git.worktree import Worktree, create

Git = Callable[..., str]


async def test_a_worktree_starts_from_the_last_commit_on_a_branch_of_its_own(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    made = await create(repository, tmp_path / "trees", "fix")
    assert made == Worktree(
        path=made.path,
        folder=made.path,
        branch="tillerman/fix",
        base=git("rev-parse", "HEAD"),
        repository=repository,
    )
    assert made.path.parent.parent == tmp_path / "trees"
    assert made.path.name == "fix"
    assert (made.path / "a.py").read_text() == "one\ntwo\nthree\n"
    assert git("branch", "--show-current", cwd=made.path) == "tillerman/fix"
    assert git("branch", "--show-current") == "main"


async def test_the_printed_command_removes_it(repository: Path, git: Git, tmp_path: Path) -> None:
    made = await create(repository, tmp_path / "trees of mine", "fix")
    (made.path / "new.py").write_text("made by an agent")
    subprocess.run(made.removal, shell=True, check=True, capture_output=True)  # noqa: ASYNC221
    assert not made.path.exists()
    assert git("branch", "--list", "tillerman/*") == ""


async def test_a_worktree_without_a_name_gets_one(repository: Path, tmp_path: Path) -> None:
    made = [await create(repository, tmp_path / "trees") for _ in range(2)]
    assert len({each.branch for each in made}) == 2


async def test_a_subfolder_is_found_again_in_the_worktree(repository: Path, tmp_path: Path) -> None:
    made = await create(repository / "lib", tmp_path / "trees", "fix")
    assert made.folder == made.path / "lib"


async def test_uncommitted_work_stays_behind_with_a_notice(
    repository: Path, tmp_path: Path
) -> None:
    (repository / "a.py").write_text("mine\n")
    (repository / "new.py").write_text("mine\n")
    made = await create(repository, tmp_path / "trees", "fix")
    assert made.notes == (
        f"2 uncommitted files of {repository} are not in it: it starts from the last commit",
    )
    assert not (made.path / "new.py").exists()


async def test_a_used_name_is_refused(repository: Path, git: Git, tmp_path: Path) -> None:
    made = await create(repository, tmp_path / "trees", "fix")
    git("branch", "tillerman/kept")
    for name, path in (("fix", made.path), ("kept", made.path.parent / "kept")):
        with pytest.raises(UsageError) as refused:
            await create(repository, tmp_path / "trees", name)
        assert (refused.value.message, refused.value.hint) == (
            f"a worktree or branch named 'tillerman/{name}' already exists",
            f"choose another name, or continue in {path}",
        )


@pytest.mark.parametrize("name", ["../up", "-b", "a b", "x..y", ".hidden", "a.lock", "a/b", "é"])
async def test_names_that_could_leave_the_folder_are_refused(
    repository: Path, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="not a valid worktree name"):
        await create(repository, tmp_path / "trees", name)
    assert not (tmp_path / "trees").exists()


async def test_outside_a_repository_the_error_has_a_hint(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as refused:
        await create(root, tmp_path / "trees", "fix")
    assert (refused.value.message, refused.value.hint) == (
        f"{root} is not in a git repository, so it has no worktrees",
        "run `git init` there, or omit --worktree",
    )


async def test_a_repository_without_commits_is_refused(
    root: Path, git: Git, tmp_path: Path
) -> None:
    git("init", "--quiet")
    with pytest.raises(UsageError, match="has no commit yet"):
        await create(root, tmp_path / "trees", "fix")


async def test_a_refusal_of_git_is_reported_with_its_message(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    git("branch", "tillerman")  # a branch of this name leaves no room for tillerman/fix
    with pytest.raises(
        UsageError, match=r"git could not create a worktree of .*refs/heads/tillerman"
    ):
        await create(repository, tmp_path / "trees", "fix")


async def test_a_checkout_runs_the_users_filters_but_no_program_of_the_repository(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho $* >> {marker}\ncat\n")
    trap.chmod(0o755)
    (repository / ".gitattributes").write_text("a.py filter=bad\nlib/* filter=mine\n")
    git("add", "-A")
    git("commit", "--quiet", "-m", "attributes")
    git("config", "--global", "filter.mine.smudge", "tr a-z A-Z")
    git("config", "filter.mine.smudge", str(trap))
    for key in ("filter.bad.smudge", "filter.bad.process", "core.fsmonitor", "core.pager"):
        git("config", key, str(trap))
    hook = repository / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(trap)
    made = await create(repository, tmp_path / "trees", "fix")
    assert not marker.exists(), marker.read_text()
    assert (made.path / "a.py").read_text() == "one\ntwo\nthree\n"
    assert (made.path / "lib" / "b.py").read_text() == "ALPHA\nBETA\nGAMMA\nDELTA\n"
