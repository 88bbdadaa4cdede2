"""A session's temporary folder is private to its user, and is removed even if its owner is
killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tillerman.sessions.enforcement import temporary_folder
from tillerman.sessions.enforcement.temporary_folder import (
    open_scratch,
    remove_scratch,
    sweep_scratches,
)

SESSION = "0123456789"
OWNER = """
import sys, time
from tillerman.sessions.enforcement.temporary_folder import open_scratch
folder = open_scratch({"TMPDIR": sys.argv[1]}, "0123456789")
(folder / "deep").mkdir()
(folder / "deep" / "file").touch()
print(folder, flush=True)
time.sleep(60)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    top = tmp_path / "top"
    top.mkdir()
    yield top
    for path in list(top.iterdir()):
        remove_scratch(path)


@pytest.fixture
def environment(folder: Path) -> dict[str, str]:
    return {"TMPDIR": str(folder)}


@pytest.fixture
def at_any_age(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporary_folder, "_YOUNGEST", -1.0)


def owned(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that has a session's folder open."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout
    return owner, Path(owner.stdout.readline().strip())


def killed(owner: subprocess.Popen[str]) -> None:
    owner.send_signal(signal.SIGKILL)
    owner.communicate()


def test_it_is_private_to_the_user_and_the_same_for_the_same_session(
    environment: dict[str, str], folder: Path
) -> None:
    first = open_scratch(environment, SESSION)
    assert first
    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    assert open_scratch(environment, SESSION) == first
    remove_scratch(first)
    assert list(folder.iterdir()) == []


def test_its_name_is_unpredictable(environment: dict[str, str]) -> None:
    names = set()
    for _ in range(20):
        path = open_scratch(environment, SESSION)
        assert path
        names.add(path.name)
        remove_scratch(path)
    assert len(names) == 20


@pytest.mark.parametrize("what", ["folder", "link", "file"])
def test_an_existing_folder_is_not_used(
    environment: dict[str, str], folder: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", bytes)
    taken = folder / f"tillerman-{SESSION}-00000000"
    match what:
        case "folder":
            taken.mkdir(mode=0o700)
        case "link":
            (folder / "other").mkdir(mode=0o700)
            taken.symlink_to("other")
        case "file":
            taken.touch()
    assert open_scratch(environment, SESSION) is None


def test_if_none_can_be_created_there_is_none(tmp_path: Path) -> None:
    assert open_scratch({"TMPDIR": str(tmp_path / "nowhere")}, SESSION) is None


@pytest.mark.usefixtures("at_any_age")
def test_the_folder_of_a_killed_owner_is_removed_at_the_next_start(
    environment: dict[str, str], folder: Path
) -> None:
    owner, path = owned(folder)
    sweep_scratches(environment)
    assert (path / "deep" / "file").exists()
    killed(owner)
    sweep_scratches(environment)
    assert list(folder.iterdir()) == []


def test_a_folder_that_was_just_made_is_left(environment: dict[str, str], folder: Path) -> None:
    owner, path = owned(folder)
    killed(owner)
    sweep_scratches(environment)
    assert path.exists()


@pytest.mark.usefixtures("at_any_age")
def test_folders_not_surely_ours_are_left(environment: dict[str, str], folder: Path) -> None:
    target = folder / "target"
    target.mkdir(mode=0o700)
    (target / "file").touch()
    (folder / f"tillerman-{SESSION}-00000001").symlink_to(target)
    (folder / f"tillerman-{SESSION}-00000002").touch()
    (folder / f"tillerman-{SESSION}-00000003").mkdir(mode=0o755)
    (folder / "tillerman-other").mkdir(mode=0o700)
    (folder / f"tillerman-{SESSION}-00000004x").mkdir(mode=0o700)
    before = sorted(folder.rglob("*"))
    sweep_scratches(environment)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.usefixtures("at_any_age")
def test_a_link_in_it_is_not_followed(environment: dict[str, str], folder: Path) -> None:
    owner, path = owned(folder)
    (folder / "kept").mkdir()
    (folder / "kept" / "file").touch()
    (path / "link").symlink_to(folder / "kept")
    killed(owner)
    sweep_scratches(environment)
    assert not path.exists()
    assert (folder / "kept" / "file").exists()


@pytest.mark.usefixtures("at_any_age")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can make files of another user")
def test_the_folder_of_another_user_is_left(environment: dict[str, str], folder: Path) -> None:
    path = folder / f"tillerman-{SESSION}-00000001"
    path.mkdir(mode=0o700)
    os.chown(path, 65534, 65534)
    sweep_scratches(environment)
    assert path.exists()
