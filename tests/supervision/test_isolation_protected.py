"""Protected names under high: read-only where they are, held where they are not."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from confined_run import Place, skip_if_missing

from bridle.supervision.isolation import (
    Confined,
    after,
    bubblewrap,
    confine,
    placeholders,
)

pytestmark = pytest.mark.usefixtures("high")


@pytest.fixture
def high() -> None:
    skip_if_missing("high")


def named(place: Place, *names: str) -> list[Path]:
    return [place.workspace / name for name in names]


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


PRESENT = ("file.json", "folder", "git/config", "git/hooks")
ACTS = (
    "echo evil > file.json",
    "echo evil >> file.json",
    "rm -f file.json",
    "mv other file.json",
    "mv file.json moved",
    "ln -sf other file.json",
    "chmod 777 file.json",
    "echo evil > folder/new",
    "mv folder moved",
    "rm -rf folder",
    "echo evil > git/config",
    "echo evil > git/hooks/pre-commit",
    "mv git moved",
    "rm -rf git",
    "ln file.json linked && echo evil > linked",
)


@pytest.mark.parametrize("act", ACTS)
def test_one_that_exists_stays_as_it_is(place: Place, act: str) -> None:
    (place.workspace / "folder").mkdir()
    (place.workspace / "git/hooks").mkdir(parents=True)
    for name in ("file.json", "folder/inner", "git/config", "git/hooks/post-commit", "other"):
        (place.workspace / name).write_text("good")
    place.give()
    before = tree(place.workspace)
    ran = place.run("high", "sh", "-c", act, protected=named(place, *PRESENT))
    assert ran.code != 0, ran
    assert tree(place.workspace) == before


ABSENT_ACTS = (
    "echo evil > .mcp.json",
    "mkdir .mcp.json",
    "ln -s other .mcp.json",
    "mv other .mcp.json",
    "rm -f .mcp.json; echo evil > .mcp.json",
    "mkdir .git",
    "mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
    "mv kept moved",
    "echo evil > kept/settings",
)


@pytest.mark.parametrize("act", ABSENT_ACTS)
def test_one_that_does_not_exist_cannot_be_made(place: Place, act: str) -> None:
    (place.workspace / "other").write_text("evil")
    (place.workspace / "kept").mkdir()
    place.give()
    before = tree(place.workspace)
    names = named(place, ".mcp.json", ".git/config", ".git/hooks", "kept/settings")
    ran = place.run("high", "sh", "-c", act, protected=names)
    assert ran.code != 0, ran
    assert tree(place.workspace) == before
    assert sorted(path.name for path in place.workspace.iterdir()) == ["kept", "other"]


def test_work_beside_protected_names_goes_on(place: Place) -> None:
    subprocess.run(["git", "init", "-q", place.workspace], check=True)
    place.give()
    names = named(place, ".git/config", ".git/hooks", ".mcp.json", ".vscode")
    work = "echo x > file && git add file && git commit -qm First && git status --short"
    who = {
        f"GIT_{word}_{what}": "a@b"
        for word in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    ran = place.run("high", "sh", "-c", work, env=who, protected=names)
    assert ran.code == 0, ran
    assert set(ran.out.splitlines()) <= {"?? .mcp.json", "?? .vscode"}
    assert sorted(path.name for path in place.workspace.iterdir()) == [".git", "file"]


def confined(workspace: Path, *names: str) -> Confined:
    return confine(
        "high",
        workspace=workspace,
        argv=["true"],
        env={"PATH": "/usr/bin:/bin"},
        cwd=workspace,
        protected=[workspace / name for name in names],
    )


def test_what_no_mount_can_hold_is_said(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to("elsewhere")
    (tmp_path / "folder").mkdir()
    (workspace / "way").symlink_to(tmp_path / "folder")
    made = confined(workspace, "link", "way/inner", "held")
    assert made.unheld == (workspace / "link", workspace / "way/inner")
    after(made)
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_workspace_that_is_called_by_a_link_has_its_names_held(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    made = confined(tmp_path / "link", ".mcp.json", "../outside")
    assert (tmp_path / "real/.mcp.json").exists()
    assert made.unheld == (tmp_path / "real/../outside",)
    after(made)
    assert list((tmp_path / "real").iterdir()) == []


def test_a_placeholder_stays_until_the_last_command_that_needs_it_has_ended(tmp_path: Path) -> None:
    first, second = confined(tmp_path, ".mcp.json"), confined(tmp_path, ".mcp.json")
    after(first)
    assert (tmp_path / ".mcp.json").stat().st_size == 0
    after(second)
    assert list(tmp_path.iterdir()) == []
    after(second)  # a second time does no harm


def test_one_that_a_killed_harness_left_goes_with_the_next_command_or_when_asked(
    tmp_path: Path,
) -> None:
    for clear in (
        lambda: after(confined(tmp_path, ".mcp.json")),
        lambda: placeholders.clear([tmp_path / ".mcp.json", tmp_path / "absent"]),
    ):
        number = placeholders.hold(tmp_path / ".mcp.json")
        assert number is not None
        os.close(number)  # as the kernel does for one that was killed
        assert (tmp_path / ".mcp.json").exists()
        clear()
        assert list(tmp_path.iterdir()) == []


def test_a_file_that_somebody_made_in_its_place_is_left_alone(tmp_path: Path) -> None:
    made = confined(tmp_path, ".mcp.json")
    (tmp_path / ".mcp.json").unlink()
    (tmp_path / ".mcp.json").write_text("{}")
    after(made)
    placeholders.clear([tmp_path / ".mcp.json"])
    assert (tmp_path / ".mcp.json").read_text() == "{}"


def test_an_empty_file_of_the_users_is_no_placeholder(tmp_path: Path) -> None:
    (tmp_path / ".env").touch(0o444)
    after(confined(tmp_path, ".env"))
    assert (tmp_path / ".env").exists()


def test_bubblewrap_is_not_taken_from_the_workspace_or_where_all_may_write(tmp_path: Path) -> None:
    own, workspace = tmp_path / "own", tmp_path / "workspace"
    for folder in (own, workspace):
        folder.mkdir()
        (folder / "bwrap").write_text("#!/bin/sh\n")
        (folder / "bwrap").chmod(0o755)
    assert bubblewrap.find(workspace, f"{workspace}:{own}") == own / "bwrap"
    own.chmod(0o777)
    assert bubblewrap.find(workspace, f"{workspace}:{own}") is None


def test_bubblewrap_of_the_system_comes_before_any_on_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path("/usr/bin/bwrap").exists():
        pytest.skip("it is installed elsewhere")
    (tmp_path / "bwrap").write_text("#!/bin/sh\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bubblewrap.find(None) == Path("/usr/bin/bwrap").resolve()
