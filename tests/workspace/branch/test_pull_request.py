"""Pull requests from recorded output of `gh`, and through a stand-in that replays it."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace.gh_stand_in import RECORDINGS, GhStandIn, failures
from tillerman.workspace.branch.github import GitHub
from tillerman.workspace.branch.pull_request import (
    PullRequest,
    PullRequestCheck,
    PullRequestUnavailable,
    parse_refusal,
    parse_view,
)
from tillerman.workspace.git.repository_state import Repository, read_repository

Git = Callable[..., str]
REFUSALS = {
    "no pull request": None,
    "not signed in": "signed_out",
    "no remote": "no_remote",
    "remote is not GitHub": "not_github",
    "not a repository": "failed",
    "detached head": "no_branch",
    "unknown field": "failed",
    "rate limited": "rate_limited",
}


def recorded(name: str) -> PullRequest:
    found = parse_view((RECORDINGS / f"{name}.json").read_bytes())
    assert isinstance(found, PullRequest)
    return found


def test_a_recorded_view_is_read_completely() -> None:
    assert recorded("pr_ci_failing") == PullRequest(
        number=42,
        title="Fix the greeting",
        url="https://github.com/your-org/your-repo/pull/42",
        state="OPEN",
        review="APPROVED",
        checks=(
            PullRequestCheck(
                "build", "failed", "https://github.com/your-org/your-repo/actions/runs/1000/job/1"
            ),
            PullRequestCheck(
                "lint", "passed", "https://github.com/your-org/your-repo/actions/runs/1000/job/2"
            ),
        ),
        head="feature/greeting",
    )


@pytest.mark.parametrize(
    ("name", "failing"),
    [
        ("pr_open", []),
        ("pr_open_no_checks", []),
        ("pr_ci_pending", []),
        ("pr_ci_failing", ["build"]),
        ("pr_ci_failing_status_context", ["deploy/preview"]),
        ("pr_ci_cancelled", ["build", "e2e", "sign"]),
    ],
)
def test_failing_checks_are_found(name: str, failing: list[str]) -> None:
    assert [check.name for check in recorded(name).failing] == failing


@pytest.mark.parametrize(
    ("name", "conflicting"),
    [("pr_conflicts", True), ("pr_mergeable_unknown", False), ("pr_behind", False)],
)
def test_an_unknown_conflict_state_is_no_conflict(name: str, conflicting: bool) -> None:
    assert recorded(name).conflicting == conflicting


def test_a_run_that_a_newer_one_cancelled_does_not_count() -> None:
    run = {"__typename": "CheckRun", "name": "build", "workflowName": "CI", "status": "COMPLETED"}
    checks = [
        {**run, "conclusion": "CANCELLED", "startedAt": "2026-09-30T20:18:40Z"},
        {**run, "conclusion": "SUCCESS", "startedAt": "2026-09-30T20:19:40Z"},
    ]
    fields = {"number": 1, "state": "OPEN", "statusCheckRollup": checks}
    found = parse_view(json.dumps(fields).encode())
    assert isinstance(found, PullRequest)
    assert [check.verdict for check in found.checks] == ["passed"]


@pytest.mark.parametrize("case", REFUSALS)
def test_a_recorded_refusal_is_reported_with_a_next_step(case: str) -> None:
    reported = next(one for one in failures() if one["case"] == case)
    found = parse_refusal(reported["exit"], reported["stderr"])
    assert (found.why if found else None) == REFUSALS[case]
    assert found is None or (found.text and found.hint)


@pytest.mark.parametrize("told", [b"", b"[]", b"{}", b'{"number": "x"}', b"\xff", b"[" * 100_000])
def test_unreadable_output_is_unavailable(told: bytes) -> None:
    found = parse_view(told)
    assert isinstance(found, PullRequestUnavailable)
    assert found.why == "failed"


def test_an_address_that_is_no_web_page_is_left_out() -> None:
    fields = {"number": 1, "state": "OPEN", "url": "javascript:alert(1)"}
    found = parse_view(json.dumps(fields).encode())
    assert isinstance(found, PullRequest)
    assert found.url == ""


# -- through a program -----------------------------------------------------------------------------


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GhStandIn:
    made = GhStandIn(tmp_path / "gh bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    return made


@pytest.fixture
async def hosted(repository: Path, git: Git) -> Repository:
    git("remote", "add", "origin", "https://github.com/your-org/your-repo.git")
    git("switch", "--quiet", "-c", "feature/greeting")
    return await read_repository(repository)


async def test_the_branchs_pull_request_is_found(gh: GhStandIn, hosted: Repository) -> None:
    gh.shows("pr_draft")
    assert await GitHub().pull_request(hosted) == recorded("pr_draft")
    gh.fails("no pull request")
    assert await GitHub().pull_request(hosted) is None


async def test_gh_sees_its_token_and_no_other_secret_and_cannot_ask(
    gh: GhStandIn, hosted: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    gh.shows("pr_open")
    monkeypatch.setenv("GH_TOKEN", "ours")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "not for it")
    monkeypatch.setenv("GH_ENTERPRISE_TOKEN", "for one host alone")
    await GitHub().pull_request(hosted)
    monkeypatch.setenv("GH_HOST", "git.example.org")
    await GitHub().pull_request(hosted)
    first, second = [env for what, _, _, env in gh.log if what == "begins"]
    assert (first["GH_TOKEN"], first["GH_PROMPT_DISABLED"]) == ("ours", "1")
    assert not {"ANTHROPIC_API_KEY", "GH_ENTERPRISE_TOKEN"} & set(first)
    assert second["GH_ENTERPRISE_TOKEN"] == "for one host alone"


async def test_without_gh_the_status_is_unavailable(
    hosted: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gh").write_text("#!/bin/sh\ntouch $HOME/ran\n")
    (tmp_path / "gh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".:/nowhere")  # nor one from wherever we stand
    found = await GitHub().pull_request(hosted)
    assert isinstance(found, PullRequestUnavailable)
    assert found.why == "no_gh"
    assert "gh auth login" in found.hint


async def test_a_slow_gh_is_killed_and_unavailable(gh: GhStandIn, hosted: Repository) -> None:
    gh.answer("pr", "view", seconds=60)
    found = await GitHub().pull_request(hosted, seconds=0.5)
    assert isinstance(found, PullRequestUnavailable)
    assert found.why == "slow"
    (began,) = gh.log
    with pytest.raises(ProcessLookupError):
        os.kill(began[1], 0)


async def test_a_flood_is_unavailable(gh: GhStandIn, hosted: Repository) -> None:
    gh.answer("pr", "view", stdout="x" * (5 << 20))
    found = await GitHub().pull_request(hosted)
    assert isinstance(found, PullRequestUnavailable)


async def test_after_a_rate_limit_gh_is_not_called_for_a_while(
    gh: GhStandIn, hosted: Repository
) -> None:
    gh.fails("rate limited")
    github = GitHub()
    for _ in range(3):
        found = await github.pull_request(hosted)
        assert isinstance(found, PullRequestUnavailable)
        assert found.why == "rate_limited"
    assert len(gh.asked) == 1


async def test_never_more_than_one_call_is_under_way(
    gh: GhStandIn, hosted: Repository, git: Git
) -> None:
    gh.shows("pr_open")
    gh.answer("api", seconds=0.2)
    github = GitHub()
    calls = [github.call(hosted, "api", str(number)) for number in range(3)]
    views = [github.pull_request(hosted) for _ in range(3)]
    await asyncio.gather(*calls, *views)
    assert len(gh.asked) == 4  # the views share one
    assert [what for what, *_ in gh.log] == ["begins", "ends"] * 4


async def test_where_no_pull_request_can_exist_gh_is_not_called(
    gh: GhStandIn, repository: Path, git: Git
) -> None:
    alone = await GitHub().pull_request(await read_repository(repository))
    git("remote", "add", "origin", "https://github.com/your-org/your-repo.git")
    git("switch", "--quiet", "--detach")
    detached = await GitHub().pull_request(await read_repository(repository))
    assert isinstance(alone, PullRequestUnavailable) and isinstance(
        detached, PullRequestUnavailable
    )
    assert (alone.why, detached.why) == ("no_remote", "no_branch")
    assert gh.asked == []
