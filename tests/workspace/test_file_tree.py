"""What the policy looks up on disk agrees with git and bash, and is bounded."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bridle.workspace.file_tree import MOST, DiskFiles

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
def test_a_glob_stands_for_the_files_that_bash_puts_in_its_place(
    folder: Path, shell: str, pattern: str
) -> None:
    ran = subprocess.run(
        ["bash", "-c", f"shopt -s nullglob; printf '%s\\n' {shell}"],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    expected = {str(folder / line) for line in ran.stdout.splitlines() if line}
    assert set(DiskFiles().glob(f"{folder}/{pattern}") or ()) == expected


def test_all_that_lies_below_is_listed_nearest_first_and_links_are_not_followed(
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
    assert MOST == 20_000
    monkeypatch.setattr("bridle.workspace.file_tree.MOST", 3)
    listing = DiskFiles().below(str(folder), frozenset())
    assert (len(listing.paths), listing.complete) == (4, False)


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_what_git_tracks_is_told_as_git_tells_it(folder: Path, version: str) -> None:
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
    told = {name for name in NAMES if DiskFiles().tracked(str(folder / name))}
    assert told == (set(NAMES) if version == "4" else tracked)


def test_outside_of_a_repository_nothing_is_tracked(folder: Path) -> None:
    assert not DiskFiles().tracked(str(folder / "a"))
