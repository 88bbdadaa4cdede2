"""`tillerman repo`, with real repositories and a `gh` that answers from recordings."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import Bench
from tests.workspace.gh_stand_in import RECORDINGS, GhStandIn


class Project:
    """A branch that is pushed to a remote, in the bench's project."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.path = bench.project
        self.hub = folder / "hub.git"
        (bench.home / ".gitconfig").write_text(
            "[user]\n\tname = Tester\n\temail = tester@example.org\n"
            '[protocol "file"]\n\tallow = always\n'
        )
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(self.hub))
        self.git("init", "--quiet", "--initial-branch=main")
        (self.path / "a.py").write_text("one\n")
        self.git("add", "a.py")
        self.git("commit", "--quiet", "-m", "start")
        self.git("remote", "add", "origin", str(self.hub))
        self.git("push", "--quiet", "origin", "main")
        self.git("switch", "--quiet", "-c", "feature/greeting")
        self.git("commit", "--quiet", "--allow-empty", "-m", "ours")
        self.git("push", "--quiet", "--set-upstream", "origin", "feature/greeting")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.path,
            env=self.bench.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()


@pytest.fixture
def gh(bench: Bench, tmp_path: Path) -> GhStandIn:
    made = GhStandIn(tmp_path / "gh")
    bench.environment["PATH"] = f"{made.folder}:{bench.environment['PATH']}"
    made.fails("no pull request")
    made.answer("repo", "view", stdout=(RECORDINGS / "repo_view.json").read_text())
    return made


@pytest.fixture
def project(bench: Bench, tmp_path: Path) -> Project:
    return Project(bench, tmp_path)


def status_json(bench: Bench) -> dict[str, Any]:
    return dict(json.loads(bench.run("repo", "status", "--json").stdout))


def test_the_status_is_one_line_and_its_details(
    bench: Bench, gh: GhStandIn, project: Project
) -> None:
    gh.shows("pr_ci_failing")
    (project.path / "new.py").write_text("new\n")
    done = bench.run("repo", "status")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "project › feature/greeting › CI FAILING (PR #42) [Fix CI]",
        "1 file not tracked",
        "Fix the greeting  https://github.com/your-org/your-repo/pull/42",
        "failing: build",
    ]
    colored = bench.run("repo", "status", "--color", "always").stdout
    assert "feature/greeting › \x1b[31mCI FAILING\x1b[0m (PR #42)" in colored


def test_programs_get_the_whole_status(bench: Bench, gh: GhStandIn, project: Project) -> None:
    gh.shows("pr_draft")
    found = status_json(bench)
    assert found.pop("pull_request")["number"] == 42
    assert found == {
        "text": "project › feature/greeting › DRAFT (PR #42) [Ready for Review]",
        "repository": "project",
        "top": str(project.path),
        "remote": "origin",
        "branch": "feature/greeting",
        "commit": project.git("rev-parse", "HEAD"),
        "upstream": "origin/feature/greeting",
        "ahead": 0,
        "behind": 0,
        "changed": 0,
        "untracked": 0,
        "conflicted": 0,
        "conflicts": [],
        "more": False,
        "status": "DRAFT",
        "color": "grey",
        "action": "Ready for Review",
        "skill": "mark-ready",
        "no_news": None,
    }


def test_without_gh_the_git_half_is_shown_with_a_hint(
    bench: Bench, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(str(shutil.which("git")))
    bench.environment["PATH"] = str(tmp_path / "bin")
    lines = bench.run("repo", "status").stdout.splitlines()
    assert lines[0] == "project › feature/greeting › LOCAL [Create PR]"
    assert lines[1].startswith("gh is not installed")
    done = bench.run("repo", "action", "--yes")
    assert done.returncode == 3
    assert "https://cli.github.com" in done.stderr


def test_a_signed_out_gh_reports_how_to_sign_in(
    bench: Bench, gh: GhStandIn, project: Project
) -> None:
    gh.fails("not signed in")
    assert status_json(bench)["no_news"]["why"] == "signed_out"
    done = bench.run("repo", "action", "--yes")
    assert (done.returncode, done.stderr) == (
        3,
        "error: gh is not signed in to GitHub\nhint: gh auth login\n",
    )


def test_outside_of_a_repository_it_reports_the_next_step(bench: Bench) -> None:
    for command in ("status", "action"):
        done = bench.run("repo", command)
        assert done.returncode == 2
        assert "is not in a git repository\nhint: change to one" in done.stderr


def test_commands_are_shown_and_not_run_without_a_confirmation(
    bench: Bench, gh: GhStandIn, project: Project
) -> None:
    gh.shows("pr_draft")
    done = bench.run("repo", "action")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "project › feature/greeting › DRAFT (PR #42) [Ready for Review]\n"
        "Ready for Review runs:\n  gh pr ready 42\n"
        "error: nothing was run\nhint: --yes runs without confirmation\n"
    )
    assert ["pr", "ready", "42"] not in gh.asked


def test_yes_runs_them_one_after_the_other(bench: Bench, gh: GhStandIn, project: Project) -> None:
    project.git("commit", "--quiet", "--allow-empty", "-m", "more")
    gh.answer("pr", "create", stdout="https://github.com/your-org/your-repo/pull/43\x1b[2J\n")
    done = bench.run("repo", "action", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("https://github.com/your-org/your-repo/pull/43\n")
    assert f"(origin is {project.hub})" in done.stderr
    pushed = project.git("--git-dir", str(project.hub), "rev-parse", "feature/greeting")
    assert pushed == project.git("rev-parse", "HEAD")
    assert gh.asked[-1] == ["pr", "create", "--fill"]


def test_the_first_failure_stops_the_rest(bench: Bench, gh: GhStandIn, project: Project) -> None:
    project.git("commit", "--quiet", "--allow-empty", "-m", "more")
    (project.hub / "hooks").mkdir(exist_ok=True)
    hook = project.hub / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho not today >&2\nexit 1\n")
    hook.chmod(0o755)
    done = bench.run("repo", "action", "--yes")
    assert done.returncode == 1
    assert "not today" in done.stderr
    assert "exited with 1; not run: gh pr create --fill\n" in done.stderr
    assert ["pr", "create", "--fill"] not in gh.asked


def test_on_a_terminal_it_asks(bench: Bench, gh: GhStandIn, project: Project) -> None:
    gh.shows("pr_draft")
    gh.answer("pr", "ready", stdout="it is ready\n")
    refused = bench.terminal("repo", "action")
    refused.wait_for("run these commands? [y/N] ")
    refused.press("n\n")
    assert refused.end() == 2
    assert ["pr", "ready", "42"] not in gh.asked
    agreed = bench.terminal("repo", "action")
    agreed.wait_for("gh pr ready 42")
    agreed.wait_for("run these commands? [y/N] ")
    agreed.press("y\n")
    agreed.wait_for("it is ready")
    assert agreed.end() == 0


def test_nothing_to_do_is_reported(bench: Bench, gh: GhStandIn, project: Project) -> None:
    project.git("switch", "--quiet", "main")
    done = bench.run("repo", "action", "--yes")
    assert (done.returncode, done.stderr) == (
        1,
        "error: no pull request possible: main is the default branch\n"
        "hint: git switch -c NAME starts a branch for a pull request\n",
    )


def test_a_step_that_needs_an_agent_is_a_session_with_the_skills_prompt(
    bench: Bench, gh: GhStandIn, project: Project
) -> None:
    gh.shows("pr_ci_failing")
    gh.answer("run", "view", "--job", "1", stdout="AssertionError: it broke\n")
    done = bench.run("repo", "action", "-a", "mock", "--approve", "auto", "--json")
    assert done.returncode == 0, done.stderr
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    (prompt,) = [e["event"]["prompt"] for e in entries if e["event"]["type"] == "turn_started"]
    assert "#42" in prompt
    assert "AssertionError: it broke" in prompt
    shown = bench.run("sessions", "list", "--json").stdout
    assert json.loads(shown)[0]["title"] == "Fix CI: feature/greeting"


def test_a_skill_of_the_project_is_reported_until_it_is_trusted(
    bench: Bench, gh: GhStandIn, project: Project
) -> None:
    gh.shows("pr_draft")
    file = project.path / ".tillerman" / "skills" / "mark-ready" / "SKILL.md"
    file.parent.mkdir(parents=True)
    file.write_text('---\nai: false\ncommands:\n  - ["gh", "pr", "comment", "{number}"]\n---\n')
    before = bench.run("repo", "action")
    assert "is ignored, .tillerman/ is not trusted" in before.stderr
    assert "  gh pr ready 42\n" in before.stderr
    assert bench.run("trust", "--yes").returncode == 0
    after = bench.run("repo", "action")
    assert "  gh pr comment 42\n" in after.stderr
