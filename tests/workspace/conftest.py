"""Real repositories in temporary folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.workspace.repositories import Git, git_in, start_repository


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
    return git_in(root)


@pytest.fixture
def repository(root: Path, git: Git) -> Path:
    start_repository(root, git)
    return root
