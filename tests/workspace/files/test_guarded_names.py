"""No tool writes files that start programs or configure agents, by any name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.workspace.hostile_archives import zipped
from tillerman.core.permission.guarded_names import INSTRUCTIONS, PROTECTED
from tillerman.workspace.files.access.confined_root import ConfinedRoot
from tillerman.workspace.files.access.guarded_names import standing
from tillerman.workspace.files.file_tools import Files
from tillerman.workspace.files.refusal import Refused
from tillerman.workspace.files.unpacking import Unpacked

NAMES = (*sorted(PROTECTED), ".env", ".env.local", ".envrc", ".github/workflows", ".github/hooks")


@pytest.fixture(params=range(4))
def cases(root: Path, request: pytest.FixtureRequest) -> list[tuple[Path, str]]:
    """A workspace for each name, in four parts that can run in parallel."""
    found = [(root / str(at), name) for at, name in enumerate(NAMES) if at % 4 == request.param]
    for workspace, _ in found:
        workspace.mkdir()
    return found


def refused(root: ConfinedRoot, *paths: str) -> None:
    for path in paths:
        for create in (True, False):
            with pytest.raises(Refused) as caught:
                root.write(path, [b"x"], create_parents=create)
            assert caught.value.hint
        with pytest.raises(Refused):
            root.make_folder(path)


def test_a_guarded_name_is_not_created(cases: list[tuple[Path, str]]) -> None:
    for root, name in cases:
        with ConfinedRoot(root) as confined:
            refused(confined, name, f"{name}/x", f"sub/{name}", f"sub/{name}/x", f"{name}/a/b/x")
        assert list(root.iterdir()) == []


def test_a_guarded_file_is_not_edited_by_any_of_its_names(cases: list[tuple[Path, str]]) -> None:
    for root, name in cases:
        path = root / "sub" / name
        path.parent.mkdir(parents=True)
        path.write_text("before")
        (root / "soft").symlink_to(path)
        (root / "soft-sub").symlink_to("sub")
        (root / "hard").hardlink_to(path)
        with ConfinedRoot(root) as confined:
            refused(
                confined, f"sub/{name}", "soft", "hard", f"soft-sub/{name}", f"./sub/../sub/{name}"
            )
        assert path.read_text() == "before"


def test_a_guarded_folder_is_recognized_when_it_or_its_parent_is_renamed(
    cases: list[tuple[Path, str]],
) -> None:
    for root, name in cases:
        (root / name).mkdir(parents=True)
        (root / name / "x").write_text("before")
        (root / "sub" / name).mkdir(parents=True)
        above = str(Path("sub", name).parent)
        with ConfinedRoot(root) as confined:
            # comes by, and sees what is there
            confined.write(str(Path(name).parent / "other"), [b"1"])
            confined.write(f"{above}/other", [b"1"])
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
    with ConfinedRoot(root) as confined:
        (root / ".env").rename(root / "plain")
        refused(confined, "plain")
        (root / "plain").unlink()
        assert confined.write("plain", [b"another file"]).created


def test_no_spelling_bypasses_the_guard(cases: list[tuple[Path, str]]) -> None:
    for root, name in cases:
        spellings = {
            name.upper(),
            name.title(),
            name.swapcase(),
            f"{name}.",
            f"{name} ",
            f"{name}. .",
        }
        spellings |= {name[:2] + sign + name[2:] for sign in "\u200b\u200c\u200d\u2060\ufeff\u00ad"}
        spellings |= {name.replace("s", "ſ"), name.replace("k", "\u212a")}
        with ConfinedRoot(root) as confined:
            for spelling in spellings:
                refused(confined, spelling, f"{spelling}/x")
        assert list(root.iterdir()) == []


@pytest.mark.parametrize("path", [".git/config", ".env", "sub/.MCP.json", ".claude"])
def test_every_tool_that_writes_refuses(root: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "zip").write_bytes(zipped([("x", b"1")]))
    (tmp_path / "hostile").write_bytes(zipped([(path, b"1"), (f"{path}/x", b"1")]))
    with ConfinedRoot(root) as confined:
        files = Files(confined, tmp_path / "exports")
        for call in (
            lambda: files.write_file(path, "x"),
            lambda: files.replace_lines_in_file(path, 1, 0, "x", ""),
            lambda: files.import_file(str(tmp_path / "file"), path),
            lambda: files.import_file(str(tmp_path / "zip"), path, unpack=True),
        ):
            with pytest.raises(Refused):
                call()
        unpacked = files.import_file(str(tmp_path / "hostile"), ".", unpack=True)
        assert isinstance(unpacked, Unpacked) and unpacked.files == 0
    assert not (root / path).exists()


def test_names_that_are_only_similar_are_allowed(root: Path) -> None:
    with ConfinedRoot(root) as confined:
        for path in (".gitignore", "git", "env", ".github/x.yml", "claude/x", "a.git", "envs/.en"):
            assert confined.write(path, [b"x"]).created


@pytest.mark.parametrize("name", sorted(INSTRUCTIONS))
def test_files_that_instruct_agents_are_distinguished(name: str) -> None:
    assert standing(["docs", name.upper()]) == "instructions"
    assert standing(["docs", f"x{name}"]) == "free"
    assert standing([".claude", name]) == "protected"


def test_guarded_files_are_read(root: Path) -> None:
    (root / ".env").write_text("A=1")
    with ConfinedRoot(root) as confined:
        os.close(confined.open_file(".env"))
