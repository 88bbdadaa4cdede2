"""The twelve statuses, on real repositories and recorded output of `gh`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workspace.gh_stand_in import GhStandIn
from tests.workspace.repositories import ACTIONS, BEFORE, RECORDED, Git, change, publish
from tillerman.workspace.branch.github import GitHub
from tillerman.workspace.branch.status import STATUSES, Breadcrumb, crumb
from tillerman.workspace.git.repository_state import read_repository


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GhStandIn:
    made = GhStandIn(tmp_path / "gh bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


@pytest.fixture
def branch(repository: Path, git: Git, tmp_path: Path) -> Path:
    """A branch that is completely on a remote."""
    publish(repository, git, tmp_path / "hub.git")
    return repository


async def status_of(folder: Path) -> Breadcrumb:
    repository = await read_repository(folder)
    return crumb(repository, await GitHub().pull_request(repository))


@pytest.mark.parametrize("name", BEFORE)
async def test_without_a_pull_request_the_status_comes_from_git_alone(
    gh: GhStandIn, branch: Path, git: Git, name: str
) -> None:
    gh.fails("no pull request")
    for step in BEFORE[name]:
        change(branch, git, step)
    found = await status_of(branch)
    assert (found.status.label, found.unavailable) == (name.split(maxsplit=1)[0], None)


@pytest.mark.parametrize("dirty", [False, True])
async def test_with_a_pull_request_its_status_wins_over_git(
    gh: GhStandIn, branch: Path, git: Git, dirty: bool
) -> None:
    if dirty:
        change(branch, git, "commit")
        change(branch, git, "dirty")
    fields = {}
    for recording in RECORDED:
        gh.shows(recording)
        fields[recording] = (await status_of(branch)).status.label
    assert fields == RECORDED


async def test_conflicts_in_the_work_tree_are_conflicts_of_an_open_pull_request(
    gh: GhStandIn, branch: Path, git: Git
) -> None:
    git("switch", "--quiet", "main")
    change(branch, git, "commit")
    git("switch", "--quiet", "feature/greeting")
    (branch / "a.py").write_text("ours\n")
    git("commit", "--quiet", "-am", "ours")
    with pytest.raises(AssertionError):
        git("merge", "main")
    gh.shows("pr_approved")
    assert (await status_of(branch)).status.label == "MERGE CONFLICTS"
    gh.shows("pr_merged")
    assert (await status_of(branch)).status.label == "MERGED"
    gh.fails("no pull request")
    assert (await status_of(branch)).status.label == "DIRTY"


def test_each_status_has_its_color_action_and_skill() -> None:
    fields = {one.label: (one.color, one.action, one.skill) for one in STATUSES}
    assert fields == ACTIONS


async def test_it_formats_as_a_path(gh: GhStandIn, branch: Path, git: Git) -> None:
    gh.shows("pr_approved")
    text = (await status_of(branch)).text
    assert text == "work › feature/greeting › APPROVED (PR #42) [Merge PR]"
    gh.fails("no pull request")
    assert (await status_of(branch)).text == "work › feature/greeting › LOCAL [Create PR]"
    git("switch", "--quiet", "--detach")
    commit = git("rev-parse", "HEAD")[:8]
    assert (await status_of(branch)).text == f"work › detached at {commit} › LOCAL [Create PR]"


@pytest.mark.parametrize("case", ["not signed in", "rate limited", "remote is not GitHub"])
async def test_without_a_pull_request_status_the_git_half_stays_with_a_hint(
    gh: GhStandIn, branch: Path, git: Git, case: str
) -> None:
    gh.fails(case)
    change(branch, git, "dirty")
    found = await status_of(branch)
    assert found.status.label == "DIRTY"
    assert found.unavailable and found.unavailable.hint
