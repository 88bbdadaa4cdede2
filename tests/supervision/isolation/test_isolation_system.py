"""What a confined command may read of the home and of PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tillerman.supervision.isolation.readable_system_paths import (
    never,
    roots_own,
    toolchains,
    without,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    for name in (
        *(".ssh", ".config/tool/bin", ".cargo/bin", ".cargo/registry", ".local/bin"),
        *(".local/share/keyrings", ".nvm/versions/node/v22/bin", "bin", "own/tool/bin", "work"),
    ):
        (made / name).mkdir(parents=True)
    (made / ".cargo/credentials.toml").touch()
    return made


def opened(home: Path, *path: Path | str) -> list[str]:
    found = toolchains(home, ":".join(map(str, path)), home / "work")
    return [str(each.relative_to(home)) for each in found if each.is_relative_to(home)]


ALWAYS = [".cargo/bin", ".cargo/registry", ".local/bin", ".nvm"]


def test_toolchains_of_the_home_are_readable_without_their_siblings(home: Path) -> None:
    assert opened(home) == ALWAYS


def test_a_folder_on_path_is_open_and_so_is_its_installation(home: Path) -> None:
    assert opened(home, home / "own/tool/bin") == [*ALWAYS, "own/tool"]
    assert opened(home, home / "bin") == sorted([*ALWAYS, "bin"])  # but not the home
    assert opened(home, home / ".local/bin", home / ".cargo/bin") == ALWAYS


@pytest.mark.parametrize("word", [".ssh", ".config/tool/bin", ".", "..", ".local", ".cargo"])
def test_no_file_with_keys_or_among_them_is_readable(home: Path, word: str) -> None:
    assert opened(home, home / word, (home / word).resolve()) == ALWAYS


def test_a_link_on_path_does_not_open_what_is_never_opened(home: Path) -> None:
    (home / "link").symlink_to(home / ".ssh")
    assert opened(home, home / "link") == ALWAYS


def test_the_workspace_opens_nothing(home: Path) -> None:
    (home / "work/.venv/bin").mkdir(parents=True)
    assert opened(home, home / "work/.venv/bin", "work/bin", ".", "") == ALWAYS


def test_tillermans_own_folders_are_never_opened(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILLERMAN_HOME", str(home / "own/tool/kept"))
    assert str(home / "own/tool/kept/state") in never(home)
    assert opened(home, home / "own/tool/bin") == [*ALWAYS, "own/tool/bin"]


@pytest.mark.skipif(os.geteuid() != 0, reason="for root alone")
def test_files_others_may_not_read_are_left_out_for_root(tmp_path: Path) -> None:
    (tmp_path / "open/deep").mkdir(parents=True)
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "other").mkdir()
    for name, mode in (("open/deep/key", 0o600), ("open/deep/word", 0o644), ("plain", 0o644)):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to("closed")
    closed = roots_own(tmp_path)
    assert closed == {tmp_path / "closed", tmp_path / "open/deep/key"}
    assert sorted(without(tmp_path, closed)) == [
        (tmp_path, False),
        (tmp_path / "open", False),
        (tmp_path / "open/deep", False),
        (tmp_path / "open/deep/word", True),
        (tmp_path / "other", True),
        (tmp_path / "plain", True),
    ]
