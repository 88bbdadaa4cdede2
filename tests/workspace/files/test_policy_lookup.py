"""What the policy looks up on disk agrees with git and bash, and is bounded."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tillerman.workspace.files.policy_lookup import MOST, DiskFiles

NAMES = ("a", "ab", ".hidden", "b c", "x*y", "[z]", "sub/a", "sub/.h", "sub/deep/a", "other/ab")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("sub")
    return tmp_path


@pytest.mark.parametrize(
    ("shell", "pattern"),
    [
        ("*", "*"),
        ("a*", "a*"),
        ("?", "?"),
        ("*/a", "*/a"),
        ("*/*", "*/*"),
        (".h*", ".h*"),
        ("sub/.?", "sub/.?"),
        ("x\\*y", "x[*]y"),
        ("x\\**", "x[*]*"),
        ("\\[*", "[[]*"),
        ("su*/deep/*", "su*/deep/*"),
        ("link/*", "link/*"),
        ("nothing*", "nothing*"),
    ],
)
def test_a_glob_stands_for_the_files_that_bash_expands_it_to(
    folder: Path, shell: str, pattern: str
) -> None:
    ran = subprocess.run(
        ["bash", "-c", f"shopt -s nullglob; printf '%s\\n' {shell}"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = {str(folder / line) for line in ran.stdout.splitlines() if line}
    assert set(DiskFiles().glob(f"{folder}/{pattern}") or ()) == expected


def test_all_entries_below_are_listed_nearest_first_and_links_are_not_followed(
    folder: Path,
) -> None:
    listing = DiskFiles().below(str(folder), frozenset())
    found = subprocess.run(
        ["find", ".", "-mindepth", "1", "-printf", "%P\\n"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (set(listing.paths), listing.complete) == (set(found.stdout.splitlines()), True)
    depths = [path.count("/") for path in listing.paths]
    assert depths == sorted(depths)
    skipped = DiskFiles().below(str(folder), frozenset({"sub"}))
    assert {path for path in skipped.paths if path.startswith("sub")} == {"sub"}


def test_a_large_folder_is_not_listed_to_its_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST == 200_000
    monkeypatch.setattr("tillerman.workspace.files.policy_lookup.MOST", 3)
    listing = DiskFiles().below(str(folder), frozenset())
    assert (len(listing.paths), listing.complete) == (4, False)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_tracked_files_are_those_git_lists(folder: Path, version: str) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout

    git("init", "-q")
    git("config", "index.version", version)
    git("add", "a", "sub/a", "b c")
    if version == "3":
        git("add", "-N", "ab")
    tracked = set(git("ls-files", "-z").split("\0")) - {""}
    reported = {name for name in NAMES if DiskFiles().tracked(str(folder / name))}
    assert reported == (set(NAMES) if version == "4" else tracked)


def test_outside_of_a_repository_nothing_is_tracked(folder: Path) -> None:
    assert not DiskFiles().tracked(str(folder / "a"))


def test_what_is_created_after_a_folder_was_read_is_found_at_once(tmp_path: Path) -> None:
    files = DiskFiles()
    top = tmp_path / "top"
    top.mkdir()
    for number in range(300):
        (top / f"f{number}").touch()
        assert len(files.below(str(top), frozenset()).paths) == number + 1


def test_a_folder_whose_times_were_set_back_is_read_again(tmp_path: Path) -> None:
    files = DiskFiles()
    top = tmp_path / "top"
    top.mkdir()
    os.utime(top, ns=(1, 1))
    _wait_until_trusted(top)
    assert files.below(str(top), frozenset()).paths == ()
    (top / ".env").touch()
    os.utime(top, ns=(1, 1))
    assert files.below(str(top), frozenset()).paths == (".env",)


def test_a_listing_is_always_current(tmp_path: Path) -> None:
    """Whatever is created, moved and removed in between, and however soon after the last lookup."""
    chance = Random(7)
    files = DiskFiles()
    top = tmp_path / "top"
    top.mkdir()
    for _ in range(250):
        folders = [top, *(path for path in top.rglob("*") if path.is_dir())]
        others = [path for path in top.rglob("*") if path.is_file()]
        place = chance.choice(folders)
        match chance.randrange(5):
            case 0 if len(folders) > 1:
                chance.choice(folders[1:]).rename(top / f"moved{chance.random()}")
            case 1 if others:
                chance.choice(others).unlink()
            case 2:
                (place / f"d{chance.random()}").mkdir()
            case 3:
                place.chmod(0o700)
            case _:
                (place / f"f{chance.random()}").touch()
        if chance.random() < 0.1:
            time.sleep(0.06)
        expected = sorted(str(path.relative_to(top)) for path in top.rglob("*"))
        assert sorted(files.below(str(top), frozenset()).paths) == expected


def test_a_folder_that_was_not_changed_is_not_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = DiskFiles()
    _wait_until_trusted(folder)
    first = files.below(str(folder), frozenset())
    read: list[str] = []
    scandir = os.scandir

    def counted(path: str) -> Any:
        read.append(path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", counted)
    assert files.below(str(folder), frozenset()) is first
    (folder / "sub" / "deep" / "new").touch()
    assert "sub/deep/new" in files.below(str(folder), frozenset()).paths
    assert read == [f"{folder}/sub/deep"]


def test_an_index_that_changed_is_read_again(folder: Path) -> None:
    files = DiskFiles()
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    for name in NAMES:
        assert not files.tracked(str(folder / name))
        subprocess.run(["git", "add", name], cwd=folder, check=True)
        assert files.tracked(str(folder / name))


def _wait_until_trusted(path: Path) -> None:
    """A folder that changed just now is read at each lookup."""
    while time.time_ns() - path.stat().st_ctime_ns < 100_000_000:
        time.sleep(0.01)


def test_a_folder_is_listed_for_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tillerman.workspace.files.policy_lookup.SECONDS", -1.0)
    (tmp_path / "top" / "sub").mkdir(parents=True)
    (tmp_path / "top" / "sub" / "a").touch()
    listing = DiskFiles().below(str(tmp_path / "top"), frozenset())
    assert (listing.paths, listing.complete) == (("sub",), False)
