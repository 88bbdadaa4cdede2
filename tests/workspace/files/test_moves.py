"""Files and folders are moved, deleted and created as by `mv`, `rm` and `mkdir`, within the
workspace."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.workspace.path_attacks import Stage
from tillerman.workspace.files import moving
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.path_locks import PathLocks
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.moving import MadeFolder, Moved, Removed
from tillerman.workspace.files.refusal import Refused


@pytest.fixture
def files(root: Path, tmp_path: Path) -> Iterator[Files]:
    with ConfinedRoot(root, locks=PathLocks(tmp_path / "locks")) as confined:
        yield Files(confined, tmp_path / "exports")


def everything(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        else:
            found[name] = None if path.is_dir() else path.read_bytes()
    return found


# -- like the commands -----------------------------------------------------------------------------

NAMES = ("a", "b", "ü", "with space", "-rf", "*")


def random_tree(chance: random.Random, folder: Path) -> None:
    folder.mkdir()
    for _ in range(chance.randint(1, 8)):
        path = folder.joinpath(*chance.choices(NAMES, k=chance.randint(1, 3)))
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            match chance.choice(("file", "file", "folder", "link")):
                case "file":
                    path.write_text(str(chance.random()))
                case "folder":
                    path.mkdir()
                case "link":
                    path.symlink_to(chance.choice(("a", "../b", "/etc", "gone")))


def random_path(chance: random.Random) -> str:
    return "/".join(chance.choices(NAMES, k=chance.randint(1, 3)))


def through_a_link(folder: Path, path: str) -> bool:
    """What the tools refuse, and the commands do not."""
    parts = path.split("/")
    return any((folder / "/".join(parts[:n])).is_symlink() for n in range(1, len(parts)))


def test_any_tree_is_changed_as_the_commands_change_it(tmp_path: Path) -> None:
    chance = random.Random(5)
    done = 0
    for number in range(150):
        ours, theirs = tmp_path / f"{number}-ours", tmp_path / f"{number}-theirs"
        random_tree(chance, ours)
        shutil.copytree(ours, theirs, symlinks=True)
        path, other = random_path(chance), random_path(chance)
        with ConfinedRoot(ours, locks=PathLocks(tmp_path / "locks")) as root:
            files = Files(root, tmp_path / "exports")
            try:
                match number % 3:
                    case 0:
                        words = ["mv", "-T", "--", path, other]
                        files.move_file(path, other)
                        (theirs / other).parent.mkdir(parents=True, exist_ok=True)
                    case 1:
                        words = ["rm", "-r", "--", path]
                        files.delete_file(path, recursive=True)
                    case _:
                        words = ["mkdir", "-p", "--", path]
                        files.create_directory(path)
            except Refused:
                refused = True
            else:
                refused = False
        if refused:
            either = {path, other} if words[0] == "mv" else {path}
            if words[0] == "mv" and os.path.lexists(theirs / other):
                continue  # `mv` would write over it
            if words[0] == "mkdir" and os.path.lexists(theirs / path):
                continue  # through a link to a folder
            if any(through_a_link(theirs, one) for one in either):
                continue
        result = subprocess.run(words, cwd=theirs, capture_output=True)
        assert (result.returncode != 0) == refused, (words, result.stderr)
        if not refused:
            assert everything(ours) == everything(theirs), words
            done += 1
    assert done > 40


# -- one by one ------------------------------------------------------------------------------------


def test_moves_and_deletions_are_reported(files: Files, root: Path) -> None:
    assert files.create_directory("x/y") == MadeFolder("x/y", True)
    assert files.create_directory("x/y/") == MadeFolder("x/y", False)
    (root / "x/y/file").write_text("one\n")
    assert files.move_file("x/y/file", "new/name") == Moved("x/y/file", "new/name", "file")
    assert files.delete_file("new/name") == Removed(
        "new/name", "file", diff="--- a/new/name\n+++ /dev/null\n@@ -1 +0,0 @@\n-one\n"
    )
    assert files.delete_file("new") == Removed("new", "folder")
    assert files.delete_file("x", recursive=True) == Removed("x", "folder", 2)
    assert everything(root) == {}


@pytest.mark.parametrize(
    ("source", "destination", "why"),
    [
        ("gone", "new", "does not exist"),
        ("a", "b", "already exists"),
        ("a", "a", "itself"),
        ("folder", "folder/inner", "inside it"),
        ("a", "../new", "outside the workspace"),
        ("a", "link/new", "is a link"),
        ("a", ".git/hooks/x", "starts programs"),
        ("a", ".env", "starts programs"),
        (".env", "a2", "starts programs"),
        (".", "new", "names a folder"),
        ("folder", ".github/workflows", "starts programs"),
        (".github", "new", "starts programs"),
        ("holds", "new", "starts programs"),
        ("a", "new\n", "characters"),
    ],
)
def test_paths_that_cannot_be_moved_stay(
    files: Files, root: Path, tmp_path: Path, source: str, destination: str, why: str
) -> None:
    (root / "folder").mkdir()
    (root / "holds/deep").mkdir(parents=True)
    (root / "holds/deep/.mcp.json").touch()
    (root / ".github/workflows").mkdir(parents=True)
    for name in ("a", "b", ".env"):
        (root / name).write_text(name)
    (root / "link").symlink_to(tmp_path)
    before = everything(root)
    with pytest.raises(Refused, match=why):
        files.move_file(source, destination)
    assert everything(root) == before


@pytest.mark.parametrize(
    "path", [".", ".env", ".git", "holds", ".github", "link/x", "../x", "full"]
)
def test_paths_that_cannot_be_deleted_stay(
    files: Files, root: Path, tmp_path: Path, path: str
) -> None:
    (root / "holds/deep").mkdir(parents=True)
    (root / "holds/deep/.mcp.json").touch()
    (root / ".github/workflows").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / ".env").touch()
    (root / "full/inner").mkdir(parents=True)
    (tmp_path / "x").touch()
    (root / "link").symlink_to(tmp_path)
    before = everything(root)
    with pytest.raises(Refused):
        files.delete_file(path, recursive=path != "full")
    assert everything(root) == before and (tmp_path / "x").exists()


def test_a_link_is_deleted_and_not_its_target(files: Files, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("kept")
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "folder").mkdir()
    (root / "folder/inner").symlink_to(tmp_path / "outside")
    assert files.delete_file("link", recursive=True) == Removed("link", "link")
    assert files.delete_file("folder", recursive=True) == Removed("folder", "folder", 2)
    assert (tmp_path / "outside/file").read_text() == "kept"


def test_a_folder_with_too_many_entries_is_left_to_a_command(
    files: Files, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moving, "MOST_ENTRIES", 10)
    for number in range(12):
        (root / f"full/{number}").mkdir(parents=True)
    with pytest.raises(Refused, match="too large to check"):
        files.delete_file("full", recursive=True)
    assert len(everything(root)) == 13


@pytest.mark.parametrize("walk", [False, True])
def test_nothing_outside_is_moved_or_deleted_while_names_are_swapped(
    tmp_path: Path, walk: bool
) -> None:
    stage = Stage(tmp_path)
    done = 0
    locks = PathLocks(tmp_path / "locks")
    with ConfinedRoot(stage.work, walk=walk, locks=locks) as root, stage.swapping(60):
        files = Files(root, tmp_path / "exports")
        for turn in range(200):
            path = ("box/other", "box/inner/other", "kept/inner/other")[turn % 3]
            for call in (
                lambda path=path, turn=turn: files.move_file(path, f"{path}-{turn}"),
                lambda path=path, turn=turn: files.move_file(f"{path}-{turn}", path),
                lambda path=path, turn=turn: files.create_directory(f"{path}-d-{turn}"),
                lambda path=path, turn=turn: files.delete_file(f"{path}-d-{turn}", True),
                lambda turn=turn: files.delete_file(("box/inner", "kept/inner")[turn % 2], True),
                lambda path=path: files.write_file(path, "mine\n"),
            ):
                with contextlib.suppress(Refused):
                    call()
                    done += 1
    assert stage.escapes() == []
    assert done > 100
