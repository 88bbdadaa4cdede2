"""The state of a repository, read from real ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.core.errors import TillermanError
from tillerman.workspace.git import repository_state as reading
from tillerman.workspace.git.repository_state import (
    NoRepository,
    WorkState,
    parse_status,
    read_repository,
)

Git = Callable[..., str]
BRANCHES = ["(detached)", "é/ü", "a'b\"c", "x;touch-marker", "$(id)", "-x", "x/y.z", "main.lock2"]


@pytest.fixture
def published(repository: Path, git: Git, tmp_path: Path) -> Path:
    """With a remote that has all of it, and a separate branch."""
    git("init", "--quiet", "--bare", str(tmp_path / "hub.git"))
    git("remote", "add", "origin", str(tmp_path / "hub.git"))
    git("push", "--quiet", "--set-upstream", "origin", "main")
    return repository


async def state(folder: Path) -> WorkState:
    return (await read_repository(folder)).state


async def test_a_clean_branch_without_a_remote_has_nothing_to_compare_with(
    repository: Path, git: Git
) -> None:
    found = await read_repository(repository)
    assert (found.top, found.name, found.remote) == (repository, "work", None)
    assert found.state == WorkState(branch="main", commit=git("rev-parse", "HEAD"))
    assert not found.state.dirty


async def test_changes_are_counted_by_kind(repository: Path, git: Git) -> None:
    (repository / "a.py").write_text("other\n")
    git("mv", "lib/b.py", "lib/renamed.py")
    (repository / "new.py").write_text("new\n")
    (repository / "left out.log").write_text("ignored\n")
    found = await state(repository)
    assert (found.changed, found.untracked, found.conflicted) == (2, 1, 0)
    assert found.dirty


async def test_ahead_and_behind_are_those_of_the_upstream(
    published: Path, git: Git, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    git("clone", "--quiet", "--branch", "main", str(tmp_path / "hub.git"), str(other))
    git("commit", "--quiet", "--allow-empty", "-m", "theirs", cwd=other)
    git("push", "--quiet", cwd=other)
    git("fetch", "--quiet")
    for number in range(2):
        git("commit", "--quiet", "--allow-empty", "-m", f"ours {number}")
    found = await read_repository(published)
    assert (found.state.upstream, found.state.ahead, found.state.behind) == ("origin/main", 2, 1)
    assert (found.remote, found.remote_url) == ("origin", str(tmp_path / "hub.git"))


async def test_a_branch_that_was_never_pushed_is_ahead_by_what_no_remote_has(
    published: Path, git: Git
) -> None:
    git("switch", "--quiet", "-c", "feature/greeting")
    assert (await state(published)).ahead == 0
    git("commit", "--quiet", "--allow-empty", "-m", "ours")
    found = await state(published)
    assert (found.upstream, found.ahead, found.behind) == (None, 1, None)


async def test_an_upstream_that_is_gone_leaves_what_no_remote_has(
    published: Path, git: Git
) -> None:
    git("switch", "--quiet", "-c", "feature")
    git("commit", "--quiet", "--allow-empty", "-m", "ours")
    git("push", "--quiet", "--set-upstream", "origin", "feature")
    git("push", "--quiet", "--delete", "origin", "feature")
    found = await state(published)
    assert (found.upstream, found.ahead) == ("origin/feature", 1)


async def test_conflicts_are_counted_and_named(repository: Path, git: Git) -> None:
    git("switch", "--quiet", "-c", "other")
    (repository / "a.py").write_text("theirs\n")
    git("commit", "--quiet", "-am", "theirs")
    git("switch", "--quiet", "main")
    (repository / "a.py").write_text("ours\n")
    git("commit", "--quiet", "-am", "ours")
    with pytest.raises(AssertionError):
        git("merge", "other")
    found = await state(repository)
    assert (found.conflicted, found.conflicts) == (1, ("a.py",))


async def test_a_detached_head_has_no_branch(repository: Path, git: Git) -> None:
    git("switch", "--quiet", "--detach")
    assert (await state(repository)).branch is None


async def test_an_unborn_branch_has_no_commit(root: Path, git: Git) -> None:
    git("init", "--quiet", "--initial-branch=trunk")
    (root / "new.py").write_text("new\n")
    assert await state(root) == WorkState(branch="trunk", untracked=1)


@pytest.mark.parametrize("name", BRANCHES)
async def test_odd_branch_names_are_reported_as_they_are(
    repository: Path, git: Git, name: str
) -> None:
    git("update-ref", f"refs/heads/{name}", "HEAD")
    git("symbolic-ref", "HEAD", f"refs/heads/{name}")
    assert (await state(repository)).branch == name


async def test_a_branch_name_that_is_not_utf8_is_read(repository: Path, git: Git) -> None:
    name = os.fsdecode(b"latin-\xe9")
    git("update-ref", f"refs/heads/{name}", "HEAD")
    git("symbolic-ref", "HEAD", f"refs/heads/{name}")
    assert (await state(repository)).branch == name


async def test_a_worktree_has_the_name_of_its_repository(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    git("worktree", "add", "--quiet", "-b", "side", str(tmp_path / "elsewhere"))
    found = await read_repository(tmp_path / "elsewhere")
    assert (found.top, found.name, found.branch) == (tmp_path / "elsewhere", "work", "side")


async def test_a_folder_below_is_in_the_same_repository(repository: Path) -> None:
    assert (await read_repository(repository / "lib")).top == repository


async def test_a_submodule_is_a_repository_of_its_own_and_is_not_entered(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    inner = tmp_path / "inner"
    git("init", "--quiet", "--initial-branch=main", str(inner))
    git("commit", "--quiet", "--allow-empty", "-m", "start", cwd=inner)
    git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    git("commit", "--quiet", "-m", "with a submodule")
    found = await read_repository(repository / "sub")
    assert (found.top, found.name) == (repository / "sub", "sub")
    (repository / "sub" / "new").write_text("new\n")
    assert not (await state(repository)).dirty  # there is nothing to commit out here
    git("commit", "--quiet", "--allow-empty", "-m", "on", cwd=repository / "sub")
    assert (await state(repository)).changed == 1


async def test_a_huge_dirty_tree_is_counted_up_to_a_bound(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(700):
        (repository / f"{'x' * 100}{number}").touch()
    whole = await state(repository)
    assert (whole.untracked, whole.more) == (700, False)
    monkeypatch.setattr(reading, "MOST_STATUS", 64 << 10)
    cut = await state(repository)
    assert (cut.branch, cut.dirty, cut.more) == ("main", True, True)
    assert 0 < cut.untracked < 700


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ([], "is not in a git repository"),
        (["init", "--quiet", "--bare"], "is a bare repository"),
    ],
)
async def test_outside_of_a_work_tree_it_reports_the_next_step(
    root: Path, git: Git, made: list[str], said: str
) -> None:
    if made:
        git(*made)
    with pytest.raises(NoRepository, match=said) as refused:
        await read_repository(root)
    assert refused.value.hint
    assert refused.value.exit_code == 2


async def test_a_repositorys_own_files_are_not_a_work_tree(repository: Path) -> None:
    with pytest.raises(NoRepository, match="own files"):
        await read_repository(repository / ".git")


async def test_a_git_that_hangs_is_ended(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho $$ > $HOME/pid\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with pytest.raises(TillermanError, match="took longer than"):
        await read_repository(repository, seconds=0.5)
    pid = int((Path(os.environ["HOME"]) / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_without_git_it_reports_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TillermanError, match="git cannot be started"):
        await read_repository(repository)


def test_unknown_output_of_newer_git_is_ignored() -> None:
    result = b"# branch.oid abc\0# branch.head main\0# branch.new word\0! ignored\0x what\0? a\0"
    assert parse_status(result) == WorkState(branch="main", commit="abc", untracked=1)
    assert parse_status(b"") == WorkState()
    assert parse_status(b"# branch.ab +x -y\0u half") == WorkState()
