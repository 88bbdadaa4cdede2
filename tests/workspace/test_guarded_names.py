"""Files that start programs or configure agents are written by no tool, by whatever name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridle.core.permission.names import INSTRUCTIONS, PROTECTED
from bridle.workspace.confined import Root
from bridle.workspace.guard import standing
from bridle.workspace.refusal import Refused

NAMES = (*sorted(PROTECTED), ".env", ".env.local", ".envrc", ".github/workflows", ".github/hooks")


def refused(root: Root, *paths: str) -> None:
    for path in paths:
        for create in (True, False):
            with pytest.raises(Refused) as caught:
                root.write(path, [b"x"], create_parents=create)
            assert caught.value.hint
        with pytest.raises(Refused):
            root.make_folder(path)


@pytest.mark.parametrize("name", NAMES)
def test_a_guarded_name_is_not_created(root: Path, name: str) -> None:
    with Root(root) as confined:
        refused(confined, name, f"{name}/x", f"sub/{name}", f"sub/{name}/x", f"{name}/deep/er/x")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_guarded_file_is_not_edited_by_any_of_its_names(root: Path, name: str) -> None:
    path = root / "sub" / name
    path.parent.mkdir(parents=True)
    path.write_text("before")
    (root / "soft").symlink_to(path)
    (root / "soft-sub").symlink_to("sub")
    (root / "hard").hardlink_to(path)
    with Root(root) as confined:
        refused(confined, f"sub/{name}", "soft", "hard", f"soft-sub/{name}", f"./sub/../sub/{name}")
    assert path.read_text() == "before"


@pytest.mark.parametrize("name", [name for name in NAMES if "/" not in name])
def test_a_guarded_folder_is_known_again_when_it_or_its_parent_is_renamed(
    root: Path, name: str
) -> None:
    (root / name).mkdir()
    (root / name / "x").write_text("before")
    (root / "sub" / name).mkdir(parents=True)
    with Root(root) as confined:
        confined.write("sub/other", [b"1"])  # comes by, and sees what is there
        (root / "soft").symlink_to(name)
        refused(confined, "soft/x", "soft/new")
        (root / name).rename(root / "renamed")
        refused(confined, "renamed/x", "renamed/new", "soft/x")
        (root / "sub").rename(root / "bus")
        refused(confined, f"bus/{name}/x")
        (root / "bus" / name).rename(root / "bus" / "renamed")
        refused(confined, "bus/renamed/new")
    assert (root / "renamed" / "x").read_text() == "before"


def test_a_guarded_file_that_was_renamed_is_not_written_over(root: Path) -> None:
    (root / ".env").write_text("before")
    with Root(root) as confined:
        (root / ".env").rename(root / "plain")
        refused(confined, "plain")
        (root / "plain").unlink()
        assert confined.write("plain", [b"another file"]).created


@pytest.mark.parametrize("name", NAMES)
def test_no_spelling_gets_by(root: Path, name: str) -> None:
    spellings = {name.upper(), name.title(), name.swapcase(), f"{name}.", f"{name} ", f"{name}. ."}
    spellings |= {name[:2] + sign + name[2:] for sign in "\u200b\u200c\u200d\u2060\ufeff\u00ad"}
    spellings |= {name.replace("s", "ſ"), name.replace("k", "\u212a")}
    with Root(root) as confined:
        for spelling in spellings:
            refused(confined, spelling, f"{spelling}/x")
    assert list(root.iterdir()) == []


def test_names_that_are_only_alike_are_free(root: Path) -> None:
    with Root(root) as confined:
        for path in (".gitignore", "git", "env", ".github/x.yml", "claude/x", "a.git", "envs/.en"):
            assert confined.write(path, [b"x"]).created


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_files_that_instruct_agents_are_told_apart(name: str) -> None:
    assert standing(["docs", name.upper()]) == "instructions"
    assert standing(["docs", f"x{name}"]) == "free"
    assert standing([".claude", name]) == "protected"


def test_guarded_files_are_read(root: Path) -> None:
    (root / ".env").write_text("A=1")
    with Root(root) as confined:
        os.close(confined.open_file(".env"))
