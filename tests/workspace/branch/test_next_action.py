"""The next step on real repositories: the commands it would run, or the prompt with its context."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.gh_stand_in import RECORDINGS, GhStandIn
from tests.workspace.repositories import Git, publish
from tillerman.core.errors import TillermanError, UsageError
from tillerman.paths import find_paths
from tillerman.workspace.branch.github import GitHub
from tillerman.workspace.branch.next_action import Action, NotReady, prepare, run_command
from tillerman.workspace.branch.skill_context import hunks, quoted
from tillerman.workspace.branch.skill_file import find_skill
from tillerman.workspace.branch.status import Breadcrumb, crumb
from tillerman.workspace.git.repository_state import read_repository

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GhStandIn:
    made = GhStandIn(tmp_path / "gh bin")
    monkeypatch.setenv("PATH", f"{made.folder}:{os.environ['PATH']}")
    made.answer("repo", "view", stdout=(RECORDINGS / "repo_view.json").read_text())
    made.fails("no pull request")
    return made


@pytest.fixture
def branch(repository: Path, git: Git, tmp_path: Path) -> Path:
    """A separate branch, pushed; `main` is the remote's default."""
    publish(repository, git, tmp_path / "hub.git", own_commit=True)
    return repository


async def status_of(folder: Path, github: GitHub) -> Breadcrumb:
    repository = await read_repository(folder)
    return crumb(repository, await github.pull_request(repository))


async def ready(folder: Path, tmp_path: Path, **environment: str) -> Action:
    github = GitHub()
    found = await status_of(folder, github)
    paths = find_paths({"TILLERMAN_HOME": str(tmp_path / "tillerman"), "HOME": str(tmp_path)})
    skill = find_skill(paths, folder, found.status.skill).skill
    return await prepare(found, skill, github, environment)


PUSH = "refs/heads/feature/greeting:refs/heads/feature/greeting"
COMMANDS = {
    "pr_draft": [["gh", "pr", "ready", "42"]],
    "pr_review_required": [["gh", "pr", "status"], ["gh", "pr", "view", "42", "--comments"]],
    "pr_approved": [["gh", "pr", "merge", "42", "--merge"]],
    "pr_closed": [["gh", "pr", "reopen", "42"]],
    "pr_merged": [
        ["git", "switch", "main"],
        ["git", "pull", "--ff-only", "--prune"],
        ["git", "branch", "-d", "--end-of-options", "feature/greeting"],
    ],
}


@pytest.mark.parametrize("recording", COMMANDS)
async def test_a_step_without_an_agent_is_exact_commands(
    gh: GhStandIn, branch: Path, tmp_path: Path, recording: str
) -> None:
    gh.shows(recording)
    found = await ready(branch, tmp_path)
    assert [list(command) for command in found.commands] == COMMANDS[recording]


async def test_a_branch_that_is_pushed_is_proposed(
    gh: GhStandIn, branch: Path, git: Git, tmp_path: Path
) -> None:
    assert (await ready(branch, tmp_path)).commands == (("gh", "pr", "create", "--fill"),)
    git("commit", "--quiet", "--allow-empty", "-m", "more")
    found = await ready(branch, tmp_path)
    push = ("git", "push", "--set-upstream", "--end-of-options", "origin", PUSH)
    assert found.commands == (push, ("gh", "pr", "create", "--fill"))
    assert found.notes == (f"origin is {tmp_path / 'hub.git'}",)


async def test_the_merge_method_is_the_one_the_user_prefers(
    gh: GhStandIn, branch: Path, tmp_path: Path
) -> None:
    gh.shows("pr_approved")
    gh.answer("repo", "view", stdout='{"viewerDefaultMergeMethod": "SQUASH"}')
    assert (await ready(branch, tmp_path)).commands[0][-1] == "--squash"
    gh.answer("repo", "view", stdout='{"viewerDefaultMergeMethod": "admin"}')
    assert (await ready(branch, tmp_path)).commands[0][-1] == "--merge"


async def test_only_a_branch_that_was_merged_at_its_current_commit_is_deleted_by_force(
    gh: GhStandIn, branch: Path, git: Git, tmp_path: Path
) -> None:
    gh.shows("pr_merged", headRefOid=git("rev-parse", "HEAD"))
    assert (await ready(branch, tmp_path)).commands[-1][2] == "-D"
    git("commit", "--quiet", "--allow-empty", "-m", "later")
    assert (await ready(branch, tmp_path)).commands[-1][2] == "-d"


# -- obstacles -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "kind", "code"),
    [
        ("not signed in", NotReady, 3),
        ("rate limited", TillermanError, 1),
        ("remote is not GitHub", UsageError, 2),
    ],
)
async def test_without_a_known_status_no_pull_request_is_created(
    gh: GhStandIn, branch: Path, tmp_path: Path, case: str, kind: type[TillermanError], code: int
) -> None:
    gh.fails(case)
    with pytest.raises(kind) as refused:
        await ready(branch, tmp_path)
    assert refused.value.exit_code == code
    assert refused.value.hint


async def test_there_is_nothing_to_propose_on_the_default_branch_or_without_a_commit(
    gh: GhStandIn, branch: Path, git: Git, tmp_path: Path
) -> None:
    git("switch", "--quiet", "main")
    with pytest.raises(TillermanError, match="main is the default branch"):
        await ready(branch, tmp_path)
    git("switch", "--quiet", "-c", "fresh")
    with pytest.raises(TillermanError, match="fresh has no commit of its own yet"):
        await ready(branch, tmp_path)
    git("branch", "--quiet", "--set-upstream-to=origin/main")
    with pytest.raises(TillermanError, match="fresh has no commit of its own yet"):
        await ready(branch, tmp_path)
    git("switch", "--quiet", "--detach")
    with pytest.raises(UsageError, match="no branch is checked out"):
        await ready(branch, tmp_path)


async def test_changes_can_be_committed_without_gh(
    branch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (branch / "new.py").write_text("new\n")
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "git").symlink_to(str(shutil.which("git")))
    monkeypatch.setenv("PATH", str(bin))
    found = await ready(branch, tmp_path)
    assert "new.py" in found.prompt


# -- prompts ---------------------------------------------------------------------------------------


async def test_reviews_are_quoted_with_author_and_location(
    gh: GhStandIn, branch: Path, tmp_path: Path
) -> None:
    gh.shows("pr_changes_requested", baseRefName="main")
    message = (RECORDINGS / "pr_review_comments.json").read_text()
    gh.answer("pr", "view", "42", "--json", "reviews,comments", stdout=message)
    inline = [{"user": {"login": "second"}, "path": "a.py", "line": 3, "body": "```\nWhy?\x1b[2J"}]
    gh.answer("api", stdout=json.dumps(inline))
    prompt = (await ready(branch, tmp_path)).prompt
    assert "https://github.com/your-org/your-repo/pull/42" in prompt
    assert "reviewer (CHANGES_REQUESTED):\n```\nOne change needed.\n```" in prompt
    assert "reviewer (remark):\n```\nPlease add a test.\n```" in prompt
    assert "second (a.py:3):\n````\n```\nWhy?\n````" in prompt
    assert "The branch is feature/greeting, to be merged into main." in prompt


async def test_logs_of_failing_checks_are_cut_and_hold_no_secret(
    gh: GhStandIn, branch: Path, tmp_path: Path
) -> None:
    gh.shows("pr_ci_failing")
    log = "begin\n" + "noise\n" * 20_000 + f"token {TOKEN} and mysecretvalue42\nAssertionError\n"
    gh.answer("run", "view", "--job", "1", "--log-failed", stdout=log)
    prompt = (await ready(branch, tmp_path, SOME_API_KEY="mysecretvalue42")).prompt
    assert "AssertionError" in prompt
    assert "bytes before left out" in prompt
    assert TOKEN not in prompt
    assert "mysecretvalue42" not in prompt
    assert "[secret:SOME_API_KEY]" in prompt
    assert len(prompt) < 32_000


async def test_a_check_outside_github_is_named_with_its_address(
    gh: GhStandIn, branch: Path, tmp_path: Path
) -> None:
    gh.shows("pr_ci_failing_status_context")
    prompt = (await ready(branch, tmp_path)).prompt
    assert "deploy/preview: https://ci.example.com/1" in prompt
    assert not any(words[0] == "run" for words in gh.asked)


def diverge(folder: Path, git: Git) -> None:
    git("switch", "--quiet", "main")
    (folder / "a.py").write_text("one\ntheirs\nthree\n")
    git("commit", "--quiet", "-am", "theirs")
    git("push", "--quiet", "origin", "main")
    git("switch", "--quiet", "feature/greeting")


async def test_conflicts_are_found_before_anybody_merged_and_leave_no_trace(
    gh: GhStandIn, branch: Path, git: Git, tmp_path: Path
) -> None:
    diverge(branch, git)
    gh.shows("pr_conflicts", baseRefName="main")
    before = git("count-objects", "-v")
    prompt = (await ready(branch, tmp_path)).prompt
    assert "a.py:\n```\nline 1:\n<<<<<<< HEAD\nours\n=======\none\ntheirs\nthree\n>>>>>>>" in prompt
    assert git("count-objects", "-v") == before
    assert git("status", "--porcelain") == ""


async def test_conflicts_of_a_merge_under_way_are_those_of_the_files(
    gh: GhStandIn, branch: Path, git: Git, tmp_path: Path
) -> None:
    diverge(branch, git)
    with pytest.raises(AssertionError):
        git("merge", "main")
    gh.shows("pr_open")
    prompt = (await ready(branch, tmp_path)).prompt
    assert "a.py:\n```\nline 1:\n<<<<<<< HEAD\nours\n=======\n" in prompt


async def test_authors_of_earlier_changes_are_listed(
    gh: GhStandIn, branch: Path, tmp_path: Path
) -> None:
    gh.shows("pr_open", baseRefName="main")
    assert "```\nTester (1)\n```" in (await ready(branch, tmp_path)).prompt


async def test_a_skill_without_placeholders_gets_the_context_all_the_same(
    gh: GhStandIn, branch: Path, tmp_path: Path
) -> None:
    file = branch / ".claude" / "skills" / "fix-ci" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: fix-ci\n---\nMend it.")
    gh.shows("pr_ci_failing")
    gh.answer("run", "view", stdout="it broke\n")
    prompt = (await ready(branch, tmp_path)).prompt
    assert prompt.startswith("Mend it.\n\nCurrent state:\n- branch: feature/greeting\n")
    assert "The checks:\n\nbuild: " in prompt
    assert "```\nit broke\n```" in prompt


def test_no_text_in_a_quote_can_end_it() -> None:
    assert quoted("a\n````\nb") == "`````\na\n````\nb\n`````"


def test_hunks_are_the_lines_between_the_markers() -> None:
    text = "one\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\ntwo\n"
    assert hunks(text) == "line 2:\n<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs"
    assert hunks("one\n=======\n") == ""


# -- running ---------------------------------------------------------------------------------------


def allow_files() -> None:
    """The user may allow remotes on this machine; a repository may not."""
    (Path(os.environ["HOME"]) / ".gitconfig").write_text('[protocol "file"]\n\tallow = always\n')


async def run(folder: Path, *command: str) -> Any:
    return await run_command(await read_repository(folder), command, os.environ)


async def test_a_push_runs_no_hook_and_no_program_of_the_repository(
    branch: Path, git: Git, tmp_path: Path
) -> None:
    allow_files()
    marker, program = tmp_path / "marker", tmp_path / "evil.sh"
    program.write_text(f"#!/bin/sh\necho $0 $@ >> {marker}\n")
    program.chmod(0o755)
    hook = branch / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(program)
    for key in ("core.sshCommand", "credential.helper", "core.pager", "core.askPass"):
        git("config", key, str(program))
    git("config", "push.gpgSign", "false")
    git("-c", "core.hooksPath=/dev/null", "commit", "--quiet", "--allow-empty", "-m", "more")
    output = await run(branch, "git", "push", "origin", PUSH)
    assert output.code == 0, output.err
    assert git("rev-parse", "feature/greeting", cwd=tmp_path / "hub.git") == git(
        "rev-parse", "HEAD"
    )
    assert not marker.exists()


@pytest.mark.parametrize("name", ["receivepack", "uploadpack"])
async def test_a_program_that_cannot_be_overridden_stops_every_command(
    gh: GhStandIn, branch: Path, git: Git, tmp_path: Path, name: str
) -> None:
    git("config", f"remote.origin.{name}", "evil")
    for step in (ready(branch, tmp_path), run(branch, "git", "push", "origin", PUSH)):
        with pytest.raises(
            TillermanError, match=f"names a program in remote.origin.{name}"
        ) as found:
            await step
        assert found.value.exit_code == 4


@pytest.mark.parametrize("url", ["ext::sh -c touch% {marker}", "{hub}"])
@pytest.mark.parametrize("allows", [True, False])
async def test_a_repository_cannot_send_a_push_to_a_program_or_a_folder(
    branch: Path, git: Git, tmp_path: Path, url: str, allows: bool
) -> None:
    marker = tmp_path / "marker"
    hub = tmp_path / "hub.git"
    (hub / "hooks").mkdir(exist_ok=True)
    (hub / "hooks" / "pre-receive").write_text(f"#!/bin/sh\ntouch {marker}\n")
    (hub / "hooks" / "pre-receive").chmod(0o755)
    if allows:
        git("config", "protocol.ext.allow", "always")
        git("config", "protocol.file.allow", "always")
    git("config", "remote.origin.url", url.format(marker=marker, hub=hub))
    git("commit", "--quiet", "--allow-empty", "-m", "more")
    output = await run(branch, "git", "push", "origin", PUSH)
    assert output.code != 0
    assert b"not allowed" in output.err
    assert not marker.exists()


async def test_a_merged_branch_is_cleaned_up(
    gh: GhStandIn, branch: Path, git: Git, tmp_path: Path
) -> None:
    allow_files()
    git("push", "--quiet", "origin", "HEAD:main")
    git("branch", "--set-upstream-to=origin/main", "main")
    gh.shows("pr_merged", headRefOid=git("rev-parse", "HEAD"))
    for command in (await ready(branch, tmp_path)).commands:
        output = await run(branch, *command)
        assert output.code == 0, output.err
    assert git("branch", "--format=%(refname:short)") == "main"
    assert (branch / "a.py").read_text() == "ours\n"
