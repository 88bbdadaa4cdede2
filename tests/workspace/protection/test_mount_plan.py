"""Which paths of a workspace are mounted, and which repository around it is protected with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tillerman.workspace.protection.git.folders import outer_git_folders
from tillerman.workspace.protection.mount_plan import mountable


@pytest.mark.parametrize("target", ["elsewhere", "/", "/etc", "..", "", "\0", "a" * 5_000])
def test_a_git_file_that_names_no_repository_is_not_followed(tmp_path: Path, target: str) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {target}\n")
    assert outer_git_folders(str(workspace)) == ()


def test_a_git_file_leads_to_its_repository(tmp_path: Path) -> None:
    repository = tmp_path / "repository/.git/worktrees/one"
    repository.mkdir(parents=True)
    (repository.parents[1] / "HEAD").write_text("ref: refs/heads/main\n")
    (repository / "commondir").write_text("../..\n")
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / ".git").write_text(f"gitdir: {repository}\n")
    assert outer_git_folders(str(workspace)) == (str(repository.parents[1]),)


def test_a_folder_in_which_an_agent_has_yet_to_create_a_file_is_mounted_by_its_entries(
    tmp_path: Path,
) -> None:
    """OpenCode exits if it cannot create this one."""
    (tmp_path / ".opencode/agent").mkdir(parents=True)
    (tmp_path / ".opencode/opencode.json").touch()
    [plan] = mountable(str(tmp_path))
    assert plan.readonly == (".opencode/agent", ".opencode/opencode.json")
    (tmp_path / ".opencode/.gitignore").touch()
    [plan] = mountable(str(tmp_path))
    assert plan.readonly == (".opencode",)


def test_a_file_in_the_place_of_such_a_folder_is_mounted(tmp_path: Path) -> None:
    (tmp_path / ".opencode").touch()
    [plan] = mountable(str(tmp_path))
    assert plan.readonly == (".opencode",)
