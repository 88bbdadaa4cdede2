"""Real repositories in temporary folders."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Git = Callable[..., str]


@pytest.fixture(autouse=True)
def a_home_without_git_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@pytest.fixture
def git(root: Path) -> Git:
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


@pytest.fixture
def repository(root: Path, git: Git) -> Path:
    git("init", "--quiet", "--initial-branch=main")
    (root / "a.py").write_text("one\ntwo\nthree\n")
    (root / "lib").mkdir()
    (root / "lib" / "b.py").write_text("alpha\nbeta\ngamma\ndelta\n")
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    git("add", "-A")
    git("commit", "--quiet", "-m", "start")
    return root
