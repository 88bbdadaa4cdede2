"""Real repositories in every state that a breadcrumb shows."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

Git = Callable[..., str]
BRANCH = "feature/greeting"
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


def git_in(root: Path) -> Git:
    def run(*words: str, cwd: Path = root) -> str:
        who = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org")
        done = subprocess.run(
            ["git", *who, *words],
            cwd=cwd,
            env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LC_ALL": "C"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def start_repository(root: Path, git: Git) -> None:
    git("init", "--quiet", "--initial-branch=main")
    (root / "a.py").write_text("one\ntwo\nthree\n")
    (root / "lib").mkdir()
    (root / "lib" / "b.py").write_text("alpha\nbeta\ngamma\ndelta\n")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    git("add", "-A")
    git("commit", "--quiet", "-m", "start")


def publish(root: Path, git: Git, hub: Path, *, own_commit: bool = False) -> None:
    """A separate branch that is on a remote, where `main` is the default one."""
    git("init", "--quiet", "--bare", "--initial-branch=main", str(hub))
    git("remote", "add", "origin", str(hub))
    git("push", "--quiet", "origin", "main")
    git("switch", "--quiet", "-c", BRANCH)
    if own_commit:
        (root / "a.py").write_text("ours\n")
        git("commit", "--quiet", "-am", "ours")
    git("push", "--quiet", "--set-upstream", "origin", BRANCH)


def change(folder: Path, git: Git, step: str) -> None:
    (folder / "a.py").write_text(f"{step}\n")
    if step == "commit":
        git("commit", "--quiet", "-am", "ours")
