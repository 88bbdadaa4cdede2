"""The twelve statuses, on real repositories and what the real `gh` said."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from gh_stand_in import GhStandIn

from bridle.workspace.breadcrumb import STATUSES, Breadcrumb, crumb
from bridle.workspace.github import GitHub
from bridle.workspace.repository import read_repository

Git = Callable[..., str]
BEFORE = {"LOCAL": [], "DIRTY": ["dirty"], "AHEAD": ["commit"], "DIRTY again": ["commit", "dirty"]}
RECORDED = {
    "pr_draft": "DRAFT",
    "pr_open": "OPEN",
    "pr_open_no_checks": "OPEN",
    "pr_ci_pending": "OPEN",
    "pr_mergeable_unknown": "OPEN",
    "pr_review_required": "REVIEW",
    "pr_changes_requested": "CHANGES REQUESTED",
    "pr_approved": "APPROVED",
    "pr_behind": "APPROVED",
    "pr_conflicts": "MERGE CONFLICTS",
    "pr_ci_failing": "CI FAILING",
    "pr_ci_failing_status_context": "CI FAILING",
    "pr_ci_cancelled": "CI FAILING",
    "pr_merged": "MERGED",
    "pr_closed": "CLOSED",
}
ACTIONS = {
    "LOCAL": ("grey", "Create PR", "create-pr"),
    "DIRTY": ("amber", "Commit & Push", "commit-changes"),
    "AHEAD": ("blue", "Push & Create PR", "push-and-create-pr"),
    "DRAFT": ("grey", "Ready for Review", "mark-ready"),
    "OPEN": ("blue", "Request Review", "request-review"),
    "REVIEW": ("amber", "Check Status", "check-review"),
    "CHANGES REQUESTED": ("red", "Address Feedback", "address-feedback"),
    "APPROVED": ("green", "Merge PR", "merge-pr"),
    "MERGE CONFLICTS": ("bright red", "Resolve Conflicts", "resolve-conflicts"),
    "CI FAILING": ("red", "Fix CI", "fix-ci"),
    "MERGED": ("purple", "Clean Up", "cleanup-branch"),
    "CLOSED": ("dark grey", "Reopen / New PR", "reopen-or-new"),
}


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GhStandIn:
    made = GhStandIn(tmp_path / "gh bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


@pytest.fixture
def branch(repository: Path, git: Git, tmp_path: Path) -> Path:
    """All of it is on a remote."""
    git("init", "--quiet", "--bare", str(tmp_path / "hub.git"))
    git("remote", "add", "origin", str(tmp_path / "hub.git"))
    git("switch", "--quiet", "-c", "feature/greeting")
    git("push", "--quiet", "--set-upstream", "origin", "feature/greeting", "main")
    return repository


async def look(folder: Path) -> Breadcrumb:
    repository = await read_repository(folder)
    return crumb(repository, await GitHub().pull_request(repository))


def change(folder: Path, git: Git, step: str) -> None:
    (folder / "a.py").write_text(f"{step}\n")
    if step == "commit":
        git("commit", "--quiet", "-am", "ours")


@pytest.mark.parametrize("name", BEFORE)
async def test_without_a_pull_request_git_alone_tells(
    gh: GhStandIn, branch: Path, git: Git, name: str
) -> None:
    gh.fails("no pull request")
    for step in BEFORE[name]:
        change(branch, git, step)
    found = await look(branch)
    assert (found.status.label, found.no_news) == (name.split(maxsplit=1)[0], None)


@pytest.mark.parametrize("recording", RECORDED)
@pytest.mark.parametrize("dirty", [False, True])
async def test_with_a_pull_request_it_tells_whatever_git_says(
    gh: GhStandIn, branch: Path, git: Git, recording: str, dirty: bool
) -> None:
    gh.shows(recording)
    if dirty:
        change(branch, git, "commit")
        change(branch, git, "dirty")
    assert (await look(branch)).status.label == RECORDED[recording]


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
    assert (await look(branch)).status.label == "MERGE CONFLICTS"
    gh.shows("pr_merged")
    assert (await look(branch)).status.label == "MERGED"
    gh.fails("no pull request")
    assert (await look(branch)).status.label == "DIRTY"


def test_each_status_has_its_color_action_and_skill() -> None:
    told = {one.label: (one.color, one.action, one.skill) for one in STATUSES}
    assert told == ACTIONS


async def test_it_reads_as_a_path(gh: GhStandIn, branch: Path, git: Git) -> None:
    gh.shows("pr_approved")
    text = (await look(branch)).text
    assert text == "work › feature/greeting › APPROVED (PR #42) [Merge PR]"
    gh.fails("no pull request")
    assert (await look(branch)).text == "work › feature/greeting › LOCAL [Create PR]"
    git("switch", "--quiet", "--detach")
    commit = git("rev-parse", "HEAD")[:8]
    assert (await look(branch)).text == f"work › detached at {commit} › LOCAL [Create PR]"


@pytest.mark.parametrize("case", ["not signed in", "rate limited", "remote is not GitHub"])
async def test_without_news_the_git_half_stays_with_a_hint(
    gh: GhStandIn, branch: Path, git: Git, case: str
) -> None:
    gh.fails(case)
    change(branch, git, "dirty")
    found = await look(branch)
    assert found.status.label == "DIRTY"
    assert found.no_news and found.no_news.hint
