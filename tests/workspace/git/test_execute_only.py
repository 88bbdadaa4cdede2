"""Our own git in a repository that names programs everywhere: none of them runs."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tillerman.supervision.isolation.landlock import version
from tillerman.workspace.git import execute_only
from tillerman.workspace.git.git import Deadline
from tillerman.workspace.git.git import git as run_git

Git = Callable[..., str]


def test_no_program_of_a_repository_runs_and_git_still_answers(
    repository: Path, git: Git, tmp_path: Path
) -> None:
    try:
        version()
    except OSError as error:
        pytest.skip(str(error))
    mark, helper = tmp_path / "mark", tmp_path / "helper"
    helper.write_text(f"#!/bin/sh\necho $0 >> {mark}\ncat\n")
    helper.chmod(0o755)
    for key in ("core.fsmonitor", "diff.external", "filter.x.clean", "core.pager", "core.editor"):
        git("config", key, str(helper))
    (repository / ".gitattributes").write_text("* filter=x\n")
    (repository / "new.py").write_text("new\n")
    words = ["git", "status", "--short"]

    def status() -> bytes:
        return subprocess.run(words, cwd=repository, capture_output=True, check=True).stdout

    assert b"?? new.py" in execute_only.call(status)
    assert not mark.exists()
    assert b"?? new.py" in status()
    assert mark.exists()  # without it, they do


def test_this_process_may_still_run_any_program(repository: Path) -> None:
    assert (
        run_git(repository, "rev-parse", "--is-inside-work-tree", deadline=Deadline(10))
        == b"true\n"
    )
    assert subprocess.run(["true"], check=True).returncode == 0
